class CausalConv(Encoding):
    """A causal convolution of the token embeddings."""

    w: nn.Parameter  # [kernel, width]
    b: nn.Parameter  # [width]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        return x if self.layer > 0 else x + convolved(x, self.w) + self.b
