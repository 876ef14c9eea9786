//! The gradients of a call: key head by key head, cut into pieces of query rows.
//!
//! A long text with few heads has few key heads for many threads. The rows of each are then cut into pieces
//! ([`pieces`](crate::attention::block::pieces)). Each adds to sums of its own over the keys that it sees, and to those of the
//! terms, and the sums of the early half of the pieces are added to those of the late half, half by half: in an order
//! that the shape alone decides. Sums of early rows exist only while somebody works on them, so that memory grows with
//! the threads at work and not with the pieces. Everything is cut: windows and
//! terms. Each piece computes the products of its keys with vectors by distance again.
//!
//! What it costs: at 16,384 tokens of 4 heads, in 64 pieces, one thread takes 4% longer than with whole heads.

use super::call::{Call, INPUTS, TermPlace};
use super::gradient::{Buffers, Head, QueryRows, Turned};
use super::sums::{HeadRows, KeySums, Layout, OwnRows};
use crate::attention::spec::{MOST_RANGES, Shape};
use crate::attention::terms::{Part, TERM_INPUTS};
use crate::machine::autodiff::tensor_of;
use crate::machine::buffers::{Rest, zeros};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What nobody works with at the moment.
struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    const fn none() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// One of them, made if there is none.
    fn take(&self, make: impl FnOnce() -> T) -> T {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        taken.unwrap_or_else(make)
    }

    fn put(&self, done: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }
}

/// Memory that pieces use one after the other: fresh memory costs as much as some percent of the work.
struct Memory {
    turned: Spare<Vec<Turned>>,
    buffers: Spare<Buffers>,
    sums: Spare<Vec<f32>>,
}

/// Some key heads of one batch row that are computed side by side, and where the gradients of each go.
struct Task<'a> {
    head: Head<'a>,
    rows: Vec<OwnRows<'a>>,
    sums: Vec<KeySums<'a>>,
}

/// The gradients of q and k of each range, of v, and of the inputs of the terms: of those alone that are `wanted`, or that a
/// gradient goes through.
pub(in crate::attention) fn backward(
    call: &Call,
    gradients: [Option<FlexTensor>; 2],
    log_sums: &FlexTensor,
    wanted: &[bool; INPUTS],
) -> [Option<FlexTensor>; INPUTS] {
    let (operands, engine) = (&call.operands, call.engine());
    let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = operands.shape;
    let group = operands.shape.group();
    let rows = QueryRows::new(operands, log_sums, gradients);
    let of_terms = engine.places(&wanted[2 * MOST_RANGES + 1..]);
    let mut places = [Part::Sums(0); TERM_INPUTS];
    for term in of_terms.iter().filter(|term| term.takes_part) {
        places[term.inputs.clone()].copy_from_slice(&term.parts);
    }
    // What the batch shares is summed over the batch in place, one batch row after the other.
    let at_once =
        if places.iter().any(|part| matches!(part, Part::Rows { shared: true, .. })) { 1 } else { batch };
    let width = |part: &Part| if let Part::Rows { width, .. } = part { *width } else { 0 };
    let widths_of_rows = places.each_ref().map(width);

    let mut q: Vec<_> = operands.ranges.iter().map(|_| zeros(batch * heads * queries * head_dim)).collect();
    let mut of_rows = places.each_ref().map(|part| match part {
        Part::Rows { width, shared } => zeros(if *shared { 1 } else { batch } * heads * queries * width),
        Part::Sums(_) => Vec::new(),
    });
    let layout = Layout::new(&engine, &places);
    let sizes = layout.sizes(keys);
    let mut parts = sizes.map(|size| zeros(batch * key_heads * size));

    let widths = operands.widths();
    let beside = engine.heads_at_once().div_ceil(group);
    let pieces = call.cut.rows(at_once * key_heads / beside, group * beside, &widths, queries);
    let memory = Memory { turned: Spare::none(), buffers: Spare::none(), sums: Spare::none() };
    let mut q_rest: Vec<_> = q.iter_mut().map(|q| Rest(q)).collect();
    let mut parts_rest = parts.each_mut().map(|part| Rest(part));
    for first in (0..batch).step_by(at_once.max(1)) {
        let mut rows_rest: Vec<_> = (of_rows.iter_mut().zip(&places))
            .map(|(rows, part)| match part {
                Part::Rows { width, shared: false } => Rest(&mut rows[first * heads * queries * width..]),
                // From the front again where the batch shares it.
                _ => Rest(rows),
            })
            .collect();
        let heads = (first * key_heads..(first + at_once) * key_heads).step_by(beside).map(|index| Task {
            head: Head {
                engine: &engine,
                of_terms: &of_terms,
                rows: &rows,
                batch: index / key_heads,
                of_keys: index % key_heads,
            },
            rows: (0..beside)
                .map(|_| OwnRows {
                    q: q_rest.iter_mut().map(|q| HeadRows::next(q, group, queries, head_dim)).collect(),
                    terms: (rows_rest.iter_mut().zip(widths_of_rows))
                        .map(|(rest, width)| HeadRows::next(rest, group, queries, width))
                        .collect(),
                })
                .collect(),
            sums: (0..beside)
                .map(|_| {
                    let mut sizes = sizes.into_iter();
                    let parts = parts_rest.each_mut().map(|rest| rest.next(sizes.next().unwrap_or_default()));
                    KeySums::of_all(keys, parts, layout)
                })
                .collect(),
        });
        let heads: Vec<Task<'_>> = heads.collect();
        heads.into_par_iter().for_each(|task| {
            let mut turned = memory.turned.take(Vec::new);
            turned.resize_with(beside, Turned::default);
            task.head.turn(&mut turned);
            run(task, &pieces, &turned, &memory);
            memory.turned.put(turned);
        });
    }

    let [near, far, v, sums @ ..] = parts;
    let mut of_ranges = q.into_iter().zip([near, far]).flat_map(|(q, k)| {
        let q = tensor_of(q, [batch, heads, queries, head_dim]);
        [q, tensor_of(k, [batch, key_heads, keys, head_dim])]
    });
    let mut gradients = [const { None }; INPUTS];
    gradients[..2 * MOST_RANGES].fill_with(|| of_ranges.next());
    gradients[2 * MOST_RANGES] = Some(tensor_of(v, [batch, key_heads, keys, value_dim]));
    let mut of_inputs = sums.into_iter().zip(of_rows).zip(widths_of_rows);
    for (term, TermPlace { inputs, takes_part, .. }) in engine.terms.iter().zip(&of_terms) {
        let parts = of_inputs.by_ref().take(inputs.len());
        let parts = parts.map(|((sums, rows), width)| if width > 0 { rows } else { sums }).collect();
        if *takes_part {
            let to = &mut gradients[2 * MOST_RANGES + 1..][inputs.clone()];
            to.iter_mut().zip(term.gradients(operands, parts)).for_each(|(to, tensor)| *to = Some(tensor));
        }
    }
    gradients
}

/// Works on neighbouring pieces, whose rows and sums the task has.
fn run(task: Task<'_>, pieces: &[Range<usize>], turned: &[Turned], memory: &Memory) {
    let Task { head, mut rows, mut sums } = task;
    let [first, others @ ..] = pieces else { return };
    if others.is_empty() {
        let mut buffers = memory.buffers.take(|| Buffers::new(head.engine));
        head.run(first, turned, &mut rows, &mut sums, &mut buffers);
        return memory.buffers.put(buffers);
    }
    let (early, late) = pieces.split_at(pieces.len() / 2);
    let early_rows = first.start..late[0].start;
    let halves = rows.into_iter().map(|rows| rows.split(early_rows.len()).into());
    let (of_early, of_late): (Vec<_>, Vec<_>) = halves.unzip();
    let layout = sums[0].layout();
    let keys = head.span(0, &early_rows).all_seen();
    let keys = keys.start..keys.end;
    // The late rows first: other threads take the early ones, whose sums are the shorter ones.
    let late_task = Task { head, rows: of_late, sums: sums.iter_mut().map(KeySums::reborrow).collect() };
    let ((), own) = rayon::join(
        || run(late_task, late, turned, memory),
        || {
            let mut own: Vec<_> = of_early.iter().map(|_| memory.sums.take(Vec::new)).collect();
            let sums = own.iter_mut().map(|own| layout.zeros(keys.clone(), own)).collect();
            run(Task { head, rows: of_early, sums }, early, turned, memory);
            own
        },
    );
    for (sums, mut own) in sums.iter_mut().zip(own) {
        sums.add(&layout.sums(keys.clone(), &mut own));
        memory.sums.put(own);
    }
}
