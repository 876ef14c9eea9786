//! The buckets of distances: from a table with an entry for each bucket to a row of keys, and back.

use crate::machine::simd::{sum, vectorised};
use std::ops::Range;
use std::sync::Arc;

/// The bucket of each distance.
///
/// Near distances usually have a bucket each, and far ones share the last: stretches of these are read without looking
/// up every distance.
pub(super) struct BucketMap {
    buckets: Arc<[u32]>,
    /// At distances below this the bucket is the distance.
    own: usize,
    /// From this distance on all buckets are that of the last distance.
    shared: usize,
    /// The largest bucket up to each distance.
    largest: Vec<u32>,
}

impl BucketMap {
    pub(super) fn new(buckets: Arc<[u32]>) -> Self {
        let own = buckets.iter().zip(0..).take_while(|(bucket, distance)| *bucket == distance).count();
        let last = buckets.last();
        let alike = buckets.iter().rev().take_while(|bucket| Some(*bucket) == last).count();
        let mut largest = buckets.to_vec();
        for distance in 1..largest.len() {
            largest[distance] = largest[distance].max(largest[distance - 1]);
        }
        Self { own, shared: buckets.len() - alike, buckets, largest }
    }

    /// The largest bucket of the distances below `end`, plus one.
    pub(super) fn used(&self, end: usize) -> usize {
        end.checked_sub(1).map_or(0, |distance| self.largest[distance] as usize + 1)
    }

    pub(super) fn shared_from(&self, distance: usize) -> Option<usize> {
        (distance >= self.shared).then(|| self.of(distance))
    }

    #[inline]
    fn of(&self, distance: usize) -> usize {
        self.buckets[distance] as usize
    }

    /// `len` keys whose distances fall by one from `farthest`: those that share a bucket, those that are looked up, and
    /// those with a bucket each.
    fn falling(&self, farthest: usize, len: usize) -> [Range<usize>; 3] {
        let shared = (farthest + 1).saturating_sub(self.shared).min(len);
        let own = (farthest + 1).saturating_sub(self.own).clamp(shared, len);
        [0..shared, shared..own, own..len]
    }

    /// `len` queries whose distances rise by one from `nearest`, in the opposite order.
    fn rising(&self, nearest: usize, len: usize) -> [Range<usize>; 3] {
        let shared = self.shared.saturating_sub(nearest).min(len);
        let own = self.own.saturating_sub(nearest).min(shared);
        [0..own, own..shared, shared..len]
    }
}

vectorised! {
    /// Adds to each of a row of keys, whose distances fall by one from `farthest`, the entry of its bucket. The table has
    /// the last bucket first.
    pub(super) fn spread(map: &BucketMap, table: &[f32], farthest: usize, row: &mut [f32]) {
        if row.is_empty() {
            return;
        }
        let last = table.len() - 1;
        let [shared, found, own] = map.falling(farthest, row.len());
        if !shared.is_empty() {
            let entry = table[last - map.of(farthest)];
            for x in &mut row[shared] {
                *x += entry;
            }
        }
        for (x, column) in row[found.clone()].iter_mut().zip(found) {
            *x += table[last - map.of(farthest - column)];
        }
        if !own.is_empty() {
            let entries = &table[last - (farthest - own.start)..];
            for (x, entry) in row[own].iter_mut().zip(entries) {
                *x += entry;
            }
        }
    }

    /// The reverse of [`spread`]: adds each of a row of keys to the entry of its bucket.
    pub(super) fn collect(map: &BucketMap, row: &[f32], farthest: usize, table: &mut [f32]) {
        if row.is_empty() {
            return;
        }
        let last = table.len() - 1;
        let [shared, found, own] = map.falling(farthest, row.len());
        if !shared.is_empty() {
            table[last - map.of(farthest)] += sum(&row[shared]);
        }
        for (x, column) in row[found.clone()].iter().zip(found) {
            table[last - map.of(farthest - column)] += x;
        }
        if !own.is_empty() {
            let entries = &mut table[last - (farthest - own.start)..];
            for (entry, x) in entries.iter_mut().zip(&row[own]) {
                *entry += x;
            }
        }
    }
}

/// The entry of each of a column of queries, whose distances from a key rise by one from `nearest`. The table has the
/// first bucket first.
#[inline(always)]
pub(super) fn read(map: &BucketMap, table: &[f32], nearest: usize, column: &mut [f32]) {
    let [own, found, shared] = map.rising(nearest, column.len());
    if !own.is_empty() {
        column[own.clone()].copy_from_slice(&table[nearest..nearest + own.len()]);
    }
    for (x, row) in column[found.clone()].iter_mut().zip(found) {
        *x = table[map.of(nearest + row)];
    }
    if !shared.is_empty() {
        let entry = table[map.of(nearest + shared.start)];
        column[shared].fill(entry);
    }
}

/// The reverse of [`read`]: adds each of a column of queries to the entry of its bucket.
#[inline(always)]
pub(super) fn put(map: &BucketMap, column: &[f32], nearest: usize, table: &mut [f32]) {
    let [own, found, shared] = map.rising(nearest, column.len());
    if !own.is_empty() {
        for (entry, x) in table[nearest..].iter_mut().zip(&column[own]) {
            *entry += x;
        }
    }
    for (x, row) in column[found.clone()].iter().zip(found) {
        table[map.of(nearest + row)] += x;
    }
    if !shared.is_empty() {
        let bucket = map.of(nearest + shared.start);
        table[bucket] += sum(&column[shared]);
    }
}
