"""Annotations of a Service for ACK's cloud controller manager, which creates the load balancer.

Source: ACK's page on annotations of CLB instances (2026-09). The address type is fixed at creation. After a change, the
manager reports `can not change LoadBalancer AddressType once created. delete and retry` and ignores the Service (its
source code, and ACK's page on the errors of Services).
"""

ADDRESS_TYPE = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type"
"""`internet`, the default, or `intranet`."""
