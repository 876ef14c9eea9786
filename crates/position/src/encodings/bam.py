class Bam(Encoding):
    """A learned penalty: a power of the distance, of either sign."""

    alpha: nn.Parameter  # [layers, heads], or [1, heads] for all layers
    beta: nn.Parameter  # the same, as mu where it is learned

    def bias(self, rows: Rows) -> Tensor:
        layer = 0 if self.config["shared"] else self.layer
        alpha, beta = (x[layer, :, None, None] for x in (self.alpha, self.beta))
        n = self.distance(rows)
        if self.config["learned_mu"]:
            mu = self.mu[layer, :, None, None]
            n = (n.to(mu.dtype) + mu.exp() - (-mu).exp()).abs()
        logarithms = (n + self.config["eps"]).log().to(alpha.dtype)
        return -(logarithms * beta + alpha).clamp_max(80).exp()
