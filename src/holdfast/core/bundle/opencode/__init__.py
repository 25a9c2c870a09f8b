"""Takes over conversations of OpenCode: reads what it stored or exported, and makes durable events of it."""
