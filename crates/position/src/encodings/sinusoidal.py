class Sinusoidal(Encoding):
    """Fixed waves, added to the token embeddings."""

    scale: nn.Parameter  # [1], where it is learned

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        angles = self.angles(positions)
        waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype)
        return x + waves * (
            self.scale if self.config["learned_scale"] else self.config["scale"]
        )
