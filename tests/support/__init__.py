"""What tests share: graphs, layers, oracles, peers."""
