class Sandwich(Encoding):
    """The product of sinusoidal embeddings as a penalty."""

    def bias(self, rows: Rows) -> Tensor:
        heads, half = self.config["heads"], self.config["dim"] // 2
        steps = torch.arange(1, half + 1, device=rows.positions.device)
        inv_freq = self.config["base"] ** (-steps.double() / half)
        waves = (torch.cos(self.distance(rows)[..., None] * inv_freq) - 1).sum(-1)
        factors = heads / (8 * torch.arange(1, heads + 1, device=waves.device))
        return (factors[:, None, None] * waves).to(rows.input.dtype)
