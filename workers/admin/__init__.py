"""Topics and schemas: plan, apply, register, check."""
