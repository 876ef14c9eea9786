//! Corpora, tokenizers, token files and the stateless batch sampler
