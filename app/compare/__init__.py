"""What is better and what is worse: pure functions over measured numbers, without a database."""
