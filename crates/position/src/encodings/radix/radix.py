class Radix(Encoding):
    """The digits of the position, the lowest first, as rows of tables or as numbers."""

    table: nn.Parameter  # [digits, beta, width], of rows
    weights: nn.Parameter  # [digits, width], of numbers

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        c, variant, beta = self.config, self.config["variant"], self.config["beta"]
        base = c["beta_new"] if variant == "convert" else beta
        at = self.places(positions) / (c["s"] if variant == "interpolate" else 1)
        if at.max() >= float(base) ** c["digits"]:
            raise ValueError(f"no digits for position {int(positions.max())}")
        powers = torch.arange(c["digits"], device=at.device).double()
        digits = (at.floor()[:, None] / base**powers).floor() % base
        if variant != "convert":
            digits[:, 0] += at - at.floor()
        if variant == "convert" and not (
            c["digits_as"] == "numbers" and c["reading"] == "raw"
        ):
            digits = ((digits + 0.5) * beta / base - 0.5).clamp(0, beta - 1)
        if c["digits_as"] == "numbers":
            return x + (digits / (beta - 1)).to(x.dtype) @ self.weights
        low = digits.long()
        share = (digits - low).to(x.dtype)[..., None]
        place = torch.arange(c["digits"], device=at.device)
        below, above = self.table[place, low], self.table[place, (low + 1) % beta]
        return x + (below + (above - below) * share).sum(1)
