//! The values of formulas.

use super::{Formula, Operation};
use crate::upload::upload_shaped;
use burn::tensor::{Bool, Device, Tensor};

/// A value over heads and distances, either of which may have one entry for all.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one a name; its tensor is a handle")]
pub enum Value {
    /// Numbers on the host, `[heads or 1, distances or 1]` row-major.
    Host {
        /// Heads and distances.
        shape: [usize; 2],
        numbers: Vec<f64>,
    },
    /// What depends on a learned parameter, `[heads or 1, distances or 1]`.
    Learned(Tensor<2>),
}

impl Value {
    /// One number for all heads and distances.
    pub fn number(number: f64) -> Self {
        Self::Host { shape: [1, 1], numbers: vec![number] }
    }

    pub fn by_distance(numbers: Vec<f64>) -> Self {
        Self::Host { shape: [1, numbers.len()], numbers }
    }

    pub fn by_head(numbers: Vec<f64>) -> Self {
        Self::Host { shape: [numbers.len(), 1], numbers }
    }

    /// All of it as a tensor, `[heads, distances]`.
    pub fn tensor(self, shape: [usize; 2], device: &Device) -> Tensor<2> {
        self.upload(device).expand(shape)
    }

    /// Where numbers on the host are 0; `None` where none is.
    fn zeros(&self, device: &Device) -> Option<Tensor<2, Bool>> {
        let Self::Host { shape, numbers } = self else { return None };
        let zeros = numbers.iter().map(|&number| f64::from(number == 0.0));
        numbers.contains(&0.0).then(|| upload_shaped(zeros, *shape, device).equal_elem(1.0))
    }

    fn upload(self, device: &Device) -> Tensor<2> {
        match self {
            Self::Host { shape, numbers } => upload_shaped(numbers.into_iter(), shape, device),
            Self::Learned(tensor) => tensor,
        }
    }
}

impl Formula {
    pub fn number(&self, of: &dyn Fn(&str) -> f64) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(name) => of(name),
            Self::Call(function, inner) => (function.of_number)(inner.number(of)),
            Self::Join(operation, a, b) => join(*operation, a.number(of), b.number(of)),
        }
    }

    /// Its value over heads and distances, with a value for every name.
    pub fn value(&self, of: &dyn Fn(&str) -> Value, device: &Device) -> Value {
        match self {
            Self::Number(number) => Value::number(*number),
            Self::Name(name) => of(name),
            Self::Call(function, inner) => match inner.value(of, device) {
                Value::Host { shape, numbers } => {
                    Value::Host { shape, numbers: numbers.into_iter().map(function.of_number).collect() }
                }
                Value::Learned(x) => Value::Learned((function.of_tensor)(x)),
            },
            Self::Join(operation, a, b) => match (a.value(of, device), b.value(of, device)) {
                (
                    Value::Host { shape: [h, d], numbers: a },
                    Value::Host { shape: [other_h, other_d], numbers: b },
                ) => {
                    let shape = [h.max(other_h), d.max(other_d)];
                    let at = |numbers: &[f64], [h, d]: [usize; 2], row: usize, column: usize| {
                        numbers[row.min(h - 1) * d + column.min(d - 1)]
                    };
                    let numbers = (0..shape[0] * shape[1]).map(|index| {
                        let (row, column) = (index / shape[1], index % shape[1]);
                        join(*operation, at(&a, [h, d], row, column), at(&b, [other_h, other_d], row, column))
                    });
                    Value::Host { shape, numbers: numbers.collect() }
                }
                (a, b) => Value::Learned(join_learned(*operation, a, b, device)),
            },
        }
    }
}

fn join(operation: Operation, a: f64, b: f64) -> f64 {
    match operation {
        Operation::Add => a + b,
        Operation::Sub => a - b,
        Operation::Mul => a * b,
        Operation::Div => a / b,
        Operation::Pow => a.powf(b),
        // NaN stays: it is found before training.
        Operation::Min | Operation::Max if a.is_nan() || b.is_nan() => f64::NAN,
        Operation::Min => a.min(b),
        Operation::Max => a.max(b),
    }
}

fn join_learned(operation: Operation, a: Value, b: Value, device: &Device) -> Tensor<2> {
    if operation == Operation::Pow {
        return power(a, b, device);
    }
    let may_be_nan = match &b {
        Value::Host { numbers, .. } => numbers.iter().any(|number| number.is_nan()),
        Value::Learned(_) => true,
    };
    // What 0 is multiplied with has slope 0, also where that of a root inside is infinite: 0 times infinity would be no number.
    let zeros = match operation {
        Operation::Mul => a.zeros(device).or_else(|| b.zeros(device)),
        Operation::Div => a.zeros(device),
        _ => None,
    };
    let (a, b) = (a.upload(device), b.upload(device));
    let joined = match operation {
        Operation::Add => a + b,
        Operation::Sub => a - b,
        Operation::Mul => a * b,
        Operation::Div => a / b,
        Operation::Min | Operation::Max => {
            let shape = [a.dims()[0].max(b.dims()[0]), a.dims()[1].max(b.dims()[1])];
            let (a, b) = (a.expand(shape), b.expand(shape));
            let second = b.clone();
            let chosen = if operation == Operation::Min { a.min_pair(b) } else { a.max_pair(b) };
            // NaN stays, as on the host; that of a has already.
            if may_be_nan { chosen.mask_where(second.clone().is_nan(), second) } else { chosen }
        }
        Operation::Pow => unreachable!("a power has its own rules"),
    };
    match zeros {
        // NaN stays, as on the host.
        Some(zeros) => {
            let numbers = joined.clone().is_nan().bool_not();
            joined.mask_fill(zeros.expand(numbers.dims()).bool_and(numbers), 0.0)
        }
        None => joined,
    }
}

/// `a^b` where one of them is learned.
fn power(a: Value, b: Value, device: &Device) -> Tensor<2> {
    match (a, b) {
        // ln 0 has no gradient: zeros are taken out, and 0^b is put in for them.
        (Value::Host { shape, numbers }, b) => {
            let logs = numbers.iter().map(|&x| if x == 0.0 { 0.0 } else { x.ln() }).collect();
            let zeros = numbers.iter().map(|&x| f64::from(x == 0.0)).collect();
            let [logs, zeros] = [logs, zeros].map(|numbers| Value::Host { shape, numbers }.upload(device));
            let b = b.upload(device);
            let powers = (logs * b.clone()).exp();
            let shape = powers.dims();
            let of_zero = powers_of_zero(b.detach()).expand(shape);
            powers.mask_where(zeros.expand(shape).equal_elem(1.0), of_zero)
        }
        (Value::Learned(a), Value::Host { shape: [1, 1], numbers }) => match numbers[0] {
            root if root > 0.0 && root < 1.0 => flat_at_zero(a, |a| a.powf_scalar(root)),
            exponent => a.powf_scalar(exponent),
        },
        // Of the slopes at 0, that of a^1 is 1 and those of larger powers are 0; an infinite one is taken as 0.
        (Value::Learned(a), b) => {
            let b = b.upload(device);
            let zeros = a.clone().equal_elem(0.0);
            let powers = (a.clone().mask_fill(zeros, 1.0).log() * b.clone()).exp();
            let shape = powers.dims();
            let b = b.detach();
            let slope = b.zeros_like().mask_fill(b.clone().equal_elem(1.0), 1.0);
            let of_zero = powers_of_zero(b) + a.clone() * slope;
            powers.mask_where(a.expand(shape).equal_elem(0.0), of_zero)
        }
    }
}

/// `f(x)` of a root, with slope 0 where it is 0 at some distances alone: an infinite one times a 0 inside, such as that of `a*n*b`, would be no
/// number. Where it is 0 at every distance a parameter is, and the slope stays infinite.
pub(super) fn flat_at_zero(x: Tensor<2>, f: impl FnOnce(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
    let somewhere = x.clone().detach().abs().max_dim(1).greater_elem(0.0); // [heads or 1, 1]
    let zeros = x.clone().equal_elem(0.0).bool_and(somewhere.expand(x.dims()));
    f(x.mask_fill(zeros.clone(), 1.0)).mask_fill(zeros, 0.0)
}

/// `0^b`: 0 where b is above 0, 1 at 0, infinite below.
fn powers_of_zero(b: Tensor<2>) -> Tensor<2> {
    let [at, below] = [b.clone().equal_elem(0.0), b.clone().lower_elem(0.0)];
    b.zeros_like().mask_fill(at, 1.0).mask_fill(below, f32::INFINITY)
}
