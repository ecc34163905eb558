"""Programs whose player uses tools: their schemas, their runtime, and what admission asks of them."""
