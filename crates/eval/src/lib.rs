//! Evaluation protocols, metrics and the rows of results.jsonl
