//! Train small GPTs on short sequences with any positional encoding, measure what happens on longer ones
