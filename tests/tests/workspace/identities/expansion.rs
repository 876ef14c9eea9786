//! The product of two sums is four terms, and each relative encoding is a change of them.

use super::{
    Matrix, ROWS, SCALE, SIZES, assert_close, assert_logits, build, dot, entered, fresh, heads, key_matrix,
    logits, matrix, of_layer, queries_and_keys, random, times,
};
use burn::module::Param;
use burn::tensor::{Device, Int, Tensor};
use longwave_position::Positions;
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::encodings::t5::Buckets;

/// Channels of a head of a row `[heads head_dim]`.
fn of_head(row: &[f64], head: usize) -> &[f64] {
    &row[head * SIZES.head_dim..(head + 1) * SIZES.head_dim]
}

#[test]
fn the_product_of_two_sums_is_four_terms() {
    let x = random::<3>("x", [1, ROWS, SIZES.width]);
    let [w_q, w_k] = ["w_q", "w_k"].map(|name| matrix(random::<2>(name, [SIZES.width, SIZES.head_dim])));
    for kind in ["learned", "sinusoidal", "recursive", "floater", "radix", "index"] {
        let encoding = fresh(&format!("kind = '{kind}'"), &SIZES);
        let sum = matrix(entered(&encoding, x.clone(), &Positions::range(0..ROWS)).squeeze_dim::<2>(0));
        let x = matrix(x.clone().squeeze_dim::<2>(0));
        let p: Matrix =
            sum.iter().zip(&x).map(|(sum, x)| sum.iter().zip(x).map(|(sum, x)| sum - x).collect()).collect();
        let term = |a: &[f64], b: &[f64]| dot(&times(a, &w_q), &times(b, &w_k));
        for i in 0..ROWS {
            for j in 0..ROWS {
                let (xi, pi, xj, pj) = (&x[i], &p[i], &x[j], &p[j]);
                let terms = [term(xi, xj), term(xi, pj), term(pi, xj), term(pi, pj)];
                let whole = term(&sum[i], &sum[j]);
                let size: f64 = terms.iter().map(|term| term.abs()).sum();
                assert_close(whole, terms.iter().sum(), 1e-5 * size, kind);
                // None of the four can be left out.
                assert!(
                    terms[1..].iter().all(|term| term.abs() > 1e-9 * size) || i == 0 || j == 0,
                    "{kind} {terms:?}"
                );
            }
        }
    }
}

#[test]
fn shaw_drops_the_querys_position_and_reads_a_vector_of_the_distance_for_the_keys() {
    let encoding = build("kind = 'shaw'\np_max = 4");
    let shaw = encoding.get::<longwave_position::encodings::shaw::Shaw>().unwrap();
    let (rel_k, rel_v) = (of_layer(&shaw.rel_k, 1), of_layer(shaw.rel_v.as_ref().unwrap(), 1));
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let positions = Positions::range(0..ROWS);
    let found = logits(&encoding, [q, k], &positions);
    let clipped = |i: usize, j: usize| (i - j).min(4);
    let formula = |h: usize, i: usize, j: usize| {
        let key: Vec<f64> = keys[h][j].iter().zip(&rel_k[clipped(i, j)]).map(|(k, r)| k + r).collect();
        SCALE * dot(&queries[h][i], &key)
    };
    assert_logits(&found, formula, "shaw");

    // The values: sum_j a_ij (v_j + R^V_ij), of which the second part is the encoding's.
    let paid = random::<4>("paid", [1, SIZES.heads, ROWS, ROWS]).abs();
    let causal = Tensor::<2>::ones([ROWS, ROWS], &Device::flex()).tril(0).unsqueeze::<4>();
    let paid = paid * causal;
    let tokens = Tensor::<2, Int>::zeros([1, ROWS], &Device::flex());
    let input = random("input", [1, ROWS, SIZES.width]);
    let rows = Rows::new(1, &tokens, &positions);
    let block = QueryBlock { rows, queries: &(0..ROWS), input: &input };
    let out = heads(&encoding.values(&paid, block).unwrap());
    for (h, paid) in heads(&paid).iter().enumerate() {
        for i in 0..ROWS {
            for channel in 0..SIZES.head_dim {
                let sum: f64 = (0..=i).map(|j| paid[i][j] * rel_v[clipped(i, j)][channel]).sum();
                assert_close(out[h][i][channel], sum, 1e-4, "shaw's values");
            }
        }
    }
}

/// `[sin | cos]` of a distance, in Transformer-XL's order.
fn waves(distance: usize) -> Vec<f64> {
    let of = |wave: fn(f64) -> f64| {
        (0..SIZES.width / 2)
            .map(move |i| wave(distance as f64 * 1e4f64.powf(-2.0 * i as f64 / SIZES.width as f64)))
    };
    of(f64::sin).chain(of(f64::cos)).collect()
}

#[test]
fn transformer_xl_reads_waves_of_the_distance_for_the_keys_and_a_vector_for_each_query() {
    let encoding = build("kind = 'transformer_xl'");
    let xl = encoding.get::<longwave_position::encodings::transformer_xl::TransformerXl>().unwrap();
    let (u, v, w_r) = (of_layer(&xl.u, 1), of_layer(&xl.v_bias, 1), of_layer(xl.w_r.as_ref().unwrap(), 1));
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let found = logits(&encoding, [q, k], &Positions::range(0..ROWS));
    let formula = |h: usize, i: usize, j: usize| {
        let (q, k) = (&queries[h][i], &keys[h][j]);
        let r = times(&waves(i - j), &w_r);
        let r = of_head(&r, h);
        SCALE * (dot(q, k) + dot(q, r) + dot(&u[h], k) + dot(&v[h], r))
    };
    assert_logits(&found, formula, "transformer_xl");
}

#[test]
fn transformer_xl_without_a_key_matrix_of_its_own_reads_waves_as_content() {
    let encoding = build("kind = 'transformer_xl'\nshared_key = true");
    let xl = encoding.get::<longwave_position::encodings::transformer_xl::TransformerXl>().unwrap();
    assert!(xl.w_r.is_none());
    let (u, v, w_k) = (of_layer(&xl.u, 1), of_layer(&xl.v_bias, 1), matrix(key_matrix()));
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let found = logits(&encoding, [q, k], &Positions::range(0..ROWS));
    let formula = |h: usize, i: usize, j: usize| {
        // (q + u) W_K^T x + (q + v) W_K^T R: the terms of the expansion with R in place of p and u, v of p W_Q.
        let (q, k, r) = (&queries[h][i], &keys[h][j], times(&waves(i - j), &w_k));
        let plus = |bias: &[f64]| q.iter().zip(bias).map(|(q, b)| q + b).collect::<Vec<f64>>();
        SCALE * (dot(&plus(&u[h]), k) + dot(&plus(&v[h]), of_head(&r, h)))
    };
    assert_logits(&found, formula, "transformer_xl");
}

#[test]
fn merging_u_w_q_into_one_vector_changes_nothing() {
    // Four terms with u W_Q and v W_Q, of which W_Q is only ever seen behind u and v.
    let mut encoding = build("kind = 'transformer_xl'");
    let xl = encoding.get_mut::<longwave_position::encodings::transformer_xl::TransformerXl>().unwrap();
    let w_q = random::<2>("w_q", [SIZES.width, SIZES.heads * SIZES.head_dim]);
    let [u, v] = ["u", "v"].map(|name| random::<2>(name, [1, SIZES.width]));
    let merged = |x: &Tensor<2>| {
        let merged = x.clone().matmul(w_q.clone()).reshape([1, SIZES.heads, SIZES.head_dim]);
        Param::from_tensor(merged.expand([SIZES.layers, SIZES.heads, SIZES.head_dim]))
    };
    (xl.u, xl.v_bias) = (merged(&u), merged(&v));
    let w_r = of_layer(xl.w_r.as_ref().unwrap(), 1);
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let found = logits(&encoding, [q, k], &Positions::range(0..ROWS));
    let (w_q, u, v) = (matrix(w_q), matrix(u), matrix(v));
    let formula = |h: usize, i: usize, j: usize| {
        let (u_q, v_q) = (times(&u[0], &w_q), times(&v[0], &w_q));
        let r = times(&waves(i - j), &w_r);
        let (q, k, r) = (&queries[h][i], &keys[h][j], of_head(&r, h));
        SCALE * (dot(q, k) + dot(q, r) + dot(of_head(&u_q, h), k) + dot(of_head(&v_q, h), r))
    };
    assert_logits(&found, formula, "merged");
}

#[test]
fn t5_keeps_content_and_content_and_a_number_for_position_and_position() {
    let encoding = build("kind = 't5'\nbuckets = 4\nmax_distance = 8");
    let t5 = encoding.get::<longwave_position::encodings::t5::T5>().unwrap();
    let table = matrix(t5.table.val());
    let buckets = Buckets { buckets: 4, max_distance: 8 };
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let found = logits(&encoding, [q, k], &Positions::range(0..ROWS));
    let formula = |h: usize, i: usize, j: usize| {
        SCALE * dot(&queries[h][i], &keys[h][j]) + table[h][buckets.of((i - j) as f64)]
    };
    assert_logits(&found, formula, "t5");
}

#[test]
fn deberta_drops_position_and_position_and_keeps_both_mixed_terms() {
    let encoding = build("kind = 'deberta'\nspan = 4");
    let deberta = encoding.get::<longwave_position::encodings::deberta::Deberta>().unwrap();
    let rel = matrix(deberta.rel.val());
    let (w_k, w_q) = (of_layer(&deberta.w_pos_k, 1), of_layer(&deberta.w_pos_q, 1));
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let found = logits(&encoding, [q, k], &Positions::range(0..ROWS));
    let delta = |a: usize, b: usize| (a as i64 - b as i64 + 4).clamp(0, 7) as usize;
    let formula = |h: usize, i: usize, j: usize| {
        let (key, query) = (times(&rel[delta(i, j)], &w_k), times(&rel[delta(j, i)], &w_q));
        let (q, k) = (&queries[h][i], &keys[h][j]);
        SCALE * (dot(q, k) + dot(q, of_head(&key, h)) + dot(of_head(&query, h), k)) / 3f64.sqrt()
    };
    assert_logits(&found, formula, "deberta");
}

#[test]
fn tupe_drops_both_mixed_terms_and_unties_position_and_position() {
    let encoding = build("kind = 'tupe'");
    let tupe = encoding.get::<longwave_position::encodings::tupe::Tupe>().unwrap();
    let [table, u_q, u_k] = [&tupe.table, &tupe.u_q, &tupe.u_k].map(|parameter| matrix(parameter.val()));
    let [gain, bias] = [&tupe.ln_gain, &tupe.ln_bias].map(|parameter| super::numbers(parameter.val()));
    let normalised = |m: usize| -> Vec<f64> {
        let (p, n) = (&table[m], SIZES.width as f64);
        let mean = p.iter().sum::<f64>() / n;
        let variance = p.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        (0..SIZES.width).map(|c| (p[c] - mean) / (variance + 1e-5).sqrt() * gain[c] + bias[c]).collect()
    };
    let [q, k] = queries_and_keys();
    let (queries, keys) = (heads(&q), heads(&k));
    let found = logits(&encoding, [q, k], &Positions::range(0..ROWS));
    let formula = |h: usize, i: usize, j: usize| {
        let (query, key) = (times(&normalised(i), &u_q), times(&normalised(j), &u_k));
        let position = dot(of_head(&query, h), of_head(&key, h));
        SCALE / 2f64.sqrt() * (dot(&queries[h][i], &keys[h][j]) + position)
    };
    assert_logits(&found, formula, "tupe");
}
