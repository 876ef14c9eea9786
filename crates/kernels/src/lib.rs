//! Fused operations with their gradients, and the reference each is held against
