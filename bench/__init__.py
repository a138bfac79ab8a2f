"""What one turn costs: our worker beside a consumer that does nothing and beside its peers, in one run."""
