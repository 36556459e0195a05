"""Loopwright: an embeddable, durable agent execution kernel."""

__all__: list[str] = []
