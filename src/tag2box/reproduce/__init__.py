"""The paper's tables, ours beside theirs: one module per table."""
