"""What several engines speak: streams, chat traces, negotiation, error bodies, logs and Prometheus metrics."""
