"""How a Service tells ACK's cloud controller manager which load balancer to make.

Source: ACK's page on annotations of CLB instances (2026-09). The type of an address can't be changed: the manager then
says `can not change LoadBalancer AddressType once created. delete and retry`, and does nothing more for that Service
(its source, and ACK's page on the errors of Services).
"""

ADDRESS_TYPE = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type"
"""`internet`, which is also meant where the annotation is missing, or `intranet`."""
