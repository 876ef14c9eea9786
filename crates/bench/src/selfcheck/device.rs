//! What the device holds, and that it repeats itself.

use super::{Checked, Each, Finding, list};
use crate::numbers;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::{Result, memory_check};
use longwave_kernels::{Attention, Precision, attention, bf16_arithmetic};

/// The largest single tensor tried, in numbers: 128 MiB in f32, what every graphics device must bind at once.
const LARGEST: usize = 1 << 25;

/// A row of numbers, and a text of tokens, that a device must be able to go through: more than the vocabularies, widths
/// and batches that small models train with, and the longest texts that the evaluations here read.
const ROW: usize = 1 << 17;
const TEXT: usize = 1 << 14;

/// Tokens that are computed at once.
const TOKENS: usize = 1 << 15;

/// How often a result is computed again in search of other bits.
const TRIES: usize = 3;

pub(super) fn all(checked: &Checked, each: &mut Each<'_>) -> Result<()> {
    each("device: memory".to_owned(), &mut free_memory)?;
    each("device: one tensor of 128 MiB".to_owned(), &mut || checked.here(large))?;
    each("device: long rows".to_owned(), &mut || checked.here(long_rows))?;
    each("device: long columns".to_owned(), &mut || checked.here(long_columns))?;
    each("device: long texts".to_owned(), &mut || checked.here(long_texts))?;
    each("device: whole numbers and comparisons".to_owned(), &mut || checked.here(whole_numbers))?;
    each("device: sums of transposed tensors".to_owned(), &mut || transposed(checked))?;
    each("device: products of f32".to_owned(), &mut || {
        checked.here(|device| bits_kept(device, Tensor::matmul))
    })?;
    each("device: products of bf16".to_owned(), &mut || {
        let found = checked.here(half_products)?;
        Ok(if checked.on_cpu() && !checked.reference { bf16_arithmetic().to_owned() } else { found })
    })?;
    each("device: the same twice".to_owned(), &mut || repeats(checked))
}

/// Products of bf16 numbers, whose sums are in f32 wherever they are computed: of so small whole numbers, all are exact.
fn half_products(device: &Device) -> Finding {
    const SIZE: usize = 96;
    if Precision::Bf16.check("", device).is_err() {
        return Ok("the device has none".to_owned());
    }
    let whole = |count: i64, shift: i64| {
        (Tensor::<1, Int>::arange(0..(SIZE * SIZE) as i64, device) * shift % count - count / 2).float()
    };
    let (x, weight) = (whole(7, 5), whole(9, 4));
    let found = Precision::Bf16.into_stream(
        x.clone().reshape([1, SIZE, SIZE]),
        weight.clone().reshape([SIZE, SIZE]),
        None,
    );
    let (x, weight) = (list(x), list(weight));
    for (index, found) in list(found).into_iter().enumerate() {
        let terms = (0..SIZE).map(|n| x[index / SIZE * SIZE + n] * weight[n * SIZE + index % SIZE]);
        let exact: f32 = terms.sum();
        // The result itself is rounded to 8 bits.
        if (found - exact).abs() > exact.abs() * Precision::Bf16.unit_roundoff() as f32 {
            return Err(format!("element {index} of a product is {found}, not {exact}"));
        }
    }
    Ok(String::new())
}

/// The system's memory: what one evaluation at 16,384 tokens takes at least.
fn free_memory() -> Finding {
    const NEEDED: u64 = 512 << 20;
    match memory_check::available() {
        Some(free) if free < NEEDED => {
            Err(format!("{} free, less than {}", memory_check::shown(free), memory_check::shown(NEEDED)))
        }
        Some(free) => {
            Ok(format!("{} free, {} threads", memory_check::shown(free), rayon::current_num_threads()))
        }
        None => Ok(format!("the system does not say, {} threads", rayon::current_num_threads())),
    }
}

/// Every part of a large tensor is there: its rows are numbered, and the mean of each is read back. Rows are short:
/// sums of so few whole numbers are exact in f32 in any order.
fn large(device: &Device) -> Finding {
    const SHORT: usize = 4096;
    const NAMES: usize = 64;
    let names = Tensor::<1, Int>::arange(0..NAMES as i64, device).float().reshape([NAMES, 1]);
    let rows = LARGEST / SHORT;
    let means = list(names.repeat_dim(1, LARGEST / NAMES).reshape([rows, SHORT]).mean_dim(1));
    let name = |row: usize| (row * NAMES / rows) as f32;
    match (0..rows).find(|&row| (means[row] - name(row)).abs() > 1e-3) {
        None => Ok(String::new()),
        Some(row) => {
            Err(format!("row {row} of {rows} reads back as {} instead of {}", means[row], name(row)))
        }
    }
}

/// How long a row of numbers the device adds up whole. Of up to 2^24 ones every partial sum is exact in f32, in any
/// order: a sum that is not their number has left some out, as on a device that ends loops before they are done.
fn long_rows(device: &Device) -> Finding {
    let sum = |count: usize| f64::from(list(Tensor::<2>::ones([1, count], device).sum_dim(1))[0]);
    let mut sums = doubled(1 << 12, 1 << 24).map(|count| (count, sum(count)));
    finding_of(sums.find(|(count, sum)| (sum - *count as f64).abs() > 0.5), ROW, |count, sum| {
        format!(
            "of {count} ones in a row {sum} are added up: trust no run with a vocabulary, a width, or tokens that are \
             computed at once (`train.batch_tokens` / `train.accumulation`) above {}",
            count / 2
        )
    })
}

/// How long a column of numbers the device adds up whole, as [`long_rows`] does it for rows. The gradient of what is added
/// to every token, or to every pair of tokens, is such a sum.
fn long_columns(device: &Device) -> Finding {
    let sum = |count: usize| f64::from(list(Tensor::<2>::ones([count, 8], device).sum_dim(0))[0]);
    let mut sums = doubled(1 << 12, 1 << 20).map(|count| (count, sum(count)));
    finding_of(sums.find(|(count, sum)| (sum - *count as f64).abs() > 0.5), TOKENS, |count, sum| {
        format!(
            "of {count} ones in a column {sum} are added up: trust no run with more than {} tokens that are computed at \
             once, and with `dape` none with more pairs of tokens",
            count / 2
        )
    })
}

/// How long a text attention reads whole: the last query weighs all keys alike, and the first value alone is not zero,
/// or the last. One query and many are read by different kernels.
fn long_texts(device: &Device) -> Finding {
    const DIM: usize = 32;
    // 1 / (the share of one key among all), which is the number of keys that were read.
    let read = |queries: usize, count: usize, place: usize| {
        let zeros = |rows: usize| Tensor::<4>::zeros([1, 1, rows, DIM], device);
        let one = Tensor::ones([1, 1, 1, DIM], device);
        let v = zeros(count).slice_assign([0..1, 0..1, place..place + 1, 0..DIM], one);
        let options = Attention { query_offset: count - queries, ..Attention::causal(DIM) };
        let output = list(attention(zeros(queries), zeros(count), v, &options));
        1.0 / f64::from(output[(queries - 1) * DIM])
    };
    let mut lengths = doubled(1 << 12, 1 << 17);
    let wrong = lengths.find_map(|count| {
        let found = [(1, 0), (1, count - 1), (64, 0), (64, count - 1)]
            .map(|(queries, place)| read(queries, count, place));
        let off = found.into_iter().find(|found| (found / count as f64 - 1.0).abs() > 1e-3 || found.is_nan());
        off.map(|found| (count, found))
    });
    finding_of(wrong, TEXT, |count, found| {
        let seen = if found.is_finite() { format!("{found:.0}") } else { "not all".to_owned() };
        format!(
            "of {count} keys attention reads {seen}: trust no reading of texts above {} tokens",
            count / 2
        )
    })
}

/// `first`, twice that, and so on to `last`.
fn doubled(first: usize, last: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(first), |count| Some(2 * count)).take_while(move |count| *count <= last)
}

/// The finding of a device that is wrong from a size on: a failure up to the size that is `needed`, a warning beyond.
fn finding_of(wrong: Option<(usize, f64)>, needed: usize, words: impl Fn(usize, f64) -> String) -> Finding {
    match wrong {
        None => Ok(String::new()),
        Some((count, found)) if count > needed => Ok(words(count, found)),
        Some((count, found)) => Err(words(count, found)),
    }
}

fn whole_numbers(device: &Device) -> Finding {
    let x = Tensor::<1, Int>::arange(0..1000, device);
    let found = list(x.clone().lower_elem(300).float() * x.float()).iter().sum::<f32>();
    let expected = (0..300).sum::<i32>() as f32;
    if (found - expected).abs() < 0.5 {
        Ok(String::new())
    } else {
        Err(format!("{found} instead of {expected}"))
    }
}

/// Whether a sum along an outer axis of a transposed tensor is right. On GPUs it is wrong with burn 0.22.1. This is
/// reported but is no failure: no operation of a model here takes such a sum, as the checks of the encodings show.
fn transposed(checked: &Checked) -> Finding {
    let run = |device: &Device| {
        list(numbers::tensor::<4>("transposed", [2, 4, 24, 16], device).swap_dims(2, 3).sum_dim(0))
    };
    let [actual, expected] = checked.both(run);
    match checked.compare("sums", &actual, &expected) {
        Ok(_) => Ok(String::new()),
        Err(wrong) if checked.on_cpu() => Err(wrong),
        Err(_) => Ok("wrong; the check of each encoding below shows whether it matters".to_owned()),
    }
}

/// Numbers of 24 bits times an identity matrix come out as they were, in any order of the sums. A product that rounds
/// them first, as tensor cores do to the 11 bits of TF32, gives other numbers.
fn bits_kept(device: &Device, product: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2>) -> Finding {
    const SIZE: usize = 128;
    // From 1 to 2, with bits in every place.
    let bits = (0..SIZE * SIZE).map(|n| 1.0_f32.to_bits() + (n * 511 + 1) as u32);
    let values: Vec<f32> = bits.map(f32::from_bits).collect();
    let x = Tensor::from_data(TensorData::new(values.clone(), [SIZE, SIZE]), device);
    let identity = Tensor::eye(SIZE, device);
    let found = [product(x.clone(), identity.clone()), product(identity, x)].map(list);
    let off = |(found, value): (&f32, &f32)| {
        let off = f64::from((found - value).abs());
        if off.is_finite() { off } else { 1.0 }
    };
    let worst = found.iter().flat_map(|found| found.iter().zip(&values)).map(off).fold(0.0, f64::max);
    if worst > 0.0 {
        let kept = -worst.log2();
        return Err(format!(
            "matrix products in f32 keep about {kept:.0} of 24 bits, as TF32 or half precision does"
        ));
    }
    Ok(String::new())
}

/// The CPU promises the same bits; for another device it is only reported.
fn repeats(checked: &Checked) -> Finding {
    match (gives_the_same_twice(checked), checked.on_cpu()) {
        (true, _) => Ok("bit for bit".to_owned()),
        (false, false) => Ok("within rounding".to_owned()),
        (false, true) => Err("two runs differ".to_owned()),
    }
}

/// Whether attention, its gradients and a long sum have the same bits when they are computed again.
pub(super) fn gives_the_same_twice(checked: &Checked) -> bool {
    let once = || {
        checked.here(|device| {
            let device = device.clone().autodiff();
            let inputs = ["q", "k", "v"]
                .map(|name| numbers::tensor::<4>(name, [2, 4, 200, 16], &device).require_grad());
            let [q, k, v] = inputs.clone();
            let output = attention(q, k, v, &Attention::causal(16));
            // Where threads add up in the order in which they end, a sum of a million shows it.
            let long: Tensor<1> = numbers::tensor::<2>("sum", [1 << 10, 1 << 10], &device).sum();
            let gradients = (output.clone() * output.clone()).sum().backward();
            let mut found = [list(output), list(long)].concat();
            found.extend(inputs.iter().filter_map(|input| input.grad(&gradients)).flat_map(list));
            found.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        })
    };
    let first = once();
    (0..TRIES).all(|_| once() == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_that_round_their_numbers_are_found() {
        let device = Device::flex();
        assert_eq!(bits_kept(&device, Tensor::matmul), Ok(String::new()));
        // TF32 keeps 11 bits of 24: adding and taking away 2^13 units of the last place rounds to that.
        let rounded = |x: Tensor<2>| (x.clone() + x.clone() * 8192.0) - x * 8192.0;
        let error = bits_kept(&device, |a, b| rounded(a).matmul(rounded(b))).unwrap_err();
        assert!(error.contains("keep about 11 of 24 bits"), "{error}");
    }

    #[test]
    fn what_is_wrong_from_a_size_on_is_told_with_the_size() {
        let words = |count: usize, found: f64| format!("{found} of {count}");
        assert_eq!(finding_of(None, 8, words), Ok(String::new()));
        assert_eq!(finding_of(Some((16, 15.0)), 8, words), Ok("15 of 16".to_owned()));
        assert_eq!(finding_of(Some((8, 7.0)), 8, words), Err("7 of 8".to_owned()));
        assert_eq!(doubled(4, 20).collect::<Vec<_>>(), [4, 8, 16]);
    }
}
