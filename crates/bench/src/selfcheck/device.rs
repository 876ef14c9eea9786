//! What the device holds, and that it repeats itself.

use super::{Checked, Each, Finding, list};
use crate::numbers;
use burn::tensor::{Device, Int, Tensor};
use longwave_core::{Result, memory};
use longwave_kernels::{Attention, attention};

/// The largest single tensor tried, in numbers: 128 MiB in f32, what every graphics device must bind at once.
const LARGEST: usize = 1 << 25;

pub(super) fn all(checked: &Checked, each: &mut Each<'_>) -> Result<()> {
    each("device: memory".to_owned(), &mut free_memory)?;
    each("device: one tensor of 128 MiB".to_owned(), &mut || checked.here(large))?;
    each("device: whole numbers and comparisons".to_owned(), &mut || checked.here(whole_numbers))?;
    each("device: the same twice".to_owned(), &mut || repeats(checked))
}

/// The system's memory: what one evaluation at 16,384 tokens takes at least.
fn free_memory() -> Finding {
    const NEEDED: u64 = 512 << 20;
    match memory::available() {
        Some(free) if free < NEEDED => {
            Err(format!("{} free, less than {}", memory::shown(free), memory::shown(NEEDED)))
        }
        Some(free) => Ok(format!("{} free, {} threads", memory::shown(free), rayon::current_num_threads())),
        None => Ok(format!("the system does not say, {} threads", rayon::current_num_threads())),
    }
}

/// Every part of a large tensor is there: its rows are numbered, and each sum is read back.
fn large(device: &Device) -> Finding {
    const ROWS: usize = 64;
    let rows = Tensor::<1, Int>::arange(0..ROWS as i64, device).float().reshape([ROWS, 1]);
    let sums = list(rows.repeat_dim(1, LARGEST / ROWS).mean_dim(1));
    let wrong = sums.iter().zip(0_u16..).position(|(sum, row)| (sum - f32::from(row)).abs() > 1e-3);
    match wrong {
        None => Ok(String::new()),
        Some(row) => Err(format!("row {row} of {ROWS} reads back as {}", sums[row])),
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

/// The CPU promises the same bits; of another device it is only told.
fn repeats(checked: &Checked) -> Finding {
    let once = || {
        checked.here(|device| {
            let [q, k, v] = ["q", "k", "v"].map(|name| numbers::tensor::<4>(name, [2, 4, 200, 16], device));
            list(attention(q, k, v, &Attention::causal(16))).into_iter().map(f32::to_bits).collect::<Vec<_>>()
        })
    };
    match (once() == once(), checked.on_cpu()) {
        (true, _) => Ok("bit for bit".to_owned()),
        (false, false) => Ok("within rounding".to_owned()),
        (false, true) => Err("two runs differ".to_owned()),
    }
}
