class Powers(ast.NodeTransformer):
    """Reads `a ** b` as a call of `pow`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        function = ast.parse('of["pow"]', mode="eval").body
        return ast.Call(function, [node.left, node.right], [])


def power(a: Tensor, b: Tensor) -> Tensor:
    """`a ** b`; a root of 0 has slope 0, for an infinite one times a distance of 0 would be no number."""
    flat = (a == 0) & (b > 0) & (b < 1)
    return torch.where(flat, 0.0, torch.where(flat, 1.0, a) ** b)


class Formulas(Encoding):
    """A bias that the config writes as a formula."""

    def bias(self, rows: Rows) -> Tensor | float:
        c, i = self.config, self.places(rows.positions)[:, None]
        if "bias" not in c:
            return 0.0
        # Names and numbers are looked up: a parameter may be called as a word of Python.
        # Every number is a float, also 007: 10**-2 of integer tensors would be 0.
        word = r"[A-Za-z_]\w*|[\d.]+(?:[eE][+-]?\d+)?"
        text = " ".join(c["bias"].split()).replace("^", "**")
        numbers = {
            "heads": c["heads"],
            "layers": c["layers"],
            "layer": self.layer,
            "L": c["train_length"],
            "d": c["head_dim"],
            "pi": math.pi,
            "e": math.e,
        }
        found = re.findall(word, text)
        numbers |= {x: float(x) for x in found if x[0] in ".0123456789"}
        of = {name: i.new_tensor(number) for name, number in numbers.items()}
        of |= {
            "n": self.distance(rows),
            "i": i,
            "j": torch.minimum(i, self.places(rows.positions)),
            "head": torch.arange(1, c["heads"] + 1).to(i)[:, None, None],
        }
        for index, name in enumerate(sorted(c.get("parameters", {}))):
            value = self.get_parameter(f"values.{index}")
            of[name] = value[min(self.layer, len(value) - 1), :, None, None]
        names = [
            "exp",
            "log",
            "log2",
            "log1p",
            "abs",
            "sin",
            "cos",
            "tanh",
            "sigmoid",
        ]
        names += ["floor", "ceil", "clamp"]
        functions = {name: getattr(torch, name) for name in names}
        functions |= {"softplus": F.softplus, "ln": torch.log}
        functions |= {"min": torch.minimum, "max": torch.maximum, "pow": power}
        functions["sqrt"] = lambda x: power(x, x.new_tensor(0.5))
        functions["round"] = lambda x: (x.abs() + 0.5).floor() * x.sign()
        tree = ast.parse(re.sub(word, r'of["\g<0>"]', text), mode="eval")
        tree = ast.fix_missing_locations(Powers().visit(tree))
        bias = eval(compile(tree, "bias", "eval"), {"of": of | functions})  # noqa: S307
        return bias.to(rows.input.dtype)
