"""Facts of Alibaba Cloud and ACK, each with its source."""
