"""MemoryCoordinator: the verbs by which an agent remembers."""
