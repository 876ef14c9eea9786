//! The training loop: optimizer, schedule, checkpoints, exact resume
