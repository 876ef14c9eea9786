class T5(Encoding):
    """A learned bias for each bucket of distances, the same in all layers."""

    table: nn.Parameter  # [heads, buckets]

    def bias(self, rows: Rows) -> Tensor:
        c = self.config
        return self.table[
            :, bucket(self.distance(rows), c["buckets"], c["max_distance"])
        ]
