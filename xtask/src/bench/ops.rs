//! `cargo xtask bench ops`: the operations on rows, each beside its reference.

use longwave::burn::tensor::Tensor;
use longwave_bench::clock::{Subject, subject};
use longwave_bench::{Bench, Direction, Record, numbers};
use longwave_core::Result;
use longwave_kernels::{OPERATIONS, Operation, use_reference};

/// Rows of each operation unless others are asked for.
pub(crate) const ROWS: usize = 2048;

/// Measures those that have `wanted` in their name, forward and backward.
pub(crate) fn run(
    bench: &Bench,
    rows: usize,
    wanted: &str,
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    for operation in OPERATIONS.iter().filter(|operation| operation.name.contains(wanted)) {
        for direction in [Direction::Forward, Direction::Backward] {
            show(measure(bench, operation, rows, direction)?)?;
        }
    }
    Ok(())
}

fn measure(bench: &Bench, operation: &Operation, rows: usize, direction: Direction) -> Result<Record> {
    let mut subjects = vec![measured(bench, operation, rows, direction, bench.reference)];
    if !bench.alone {
        subjects.push(measured(bench, operation, rows, direction, true));
    }
    let times = bench.clock.time(&mut subjects);
    bench.asked_kernels();
    let (times, case) = (times?, format!("{}, {rows} rows", operation.name));
    let record = Record::new("ops", case, direction, &bench.device_name, &times[0]);
    Ok(record.against("plain tensor operations", times.get(1)))
}

/// The operation itself, or its gradient alone. Its kernels are chosen before every run, since subjects take turns.
fn measured<'a>(
    bench: &'a Bench,
    operation: &'a Operation,
    rows: usize,
    direction: Direction,
    by_reference: bool,
) -> Subject<'a> {
    let sizes = (operation.sizes)(rows).into_iter().enumerate();
    let inputs: Vec<Tensor<1>> =
        sizes.map(|(input, size)| numbers::tensor(&format!("{input}"), [size], &bench.device)).collect();
    if direction == Direction::Forward {
        let prepare = move || {
            use_reference(by_reference);
            inputs.clone()
        };
        return subject(&bench.device, prepare, move |inputs| (operation.run)(&inputs, rows));
    }
    let root = move || {
        use_reference(by_reference);
        let leaves: Vec<Tensor<1>> =
            inputs.iter().map(|x| Tensor::from_inner(x.clone()).require_grad()).collect();
        (operation.run)(&leaves, rows).sum()
    };
    subject(&bench.device, root, |root| root.backward())
}
