//! Deliberately wrong encodings. Each breaks one law, which must reject it; no law may be without one.

use super::{Build, LAWS, check_law};
use crate::distance::ChosenRows;
use crate::encoding::MapsByDistance;
use crate::encodings::Encoding;
use crate::prelude::*;
use longwave_kernels::RelativeVectors;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    /// Nothing: it adds a learned multiple of the position, and every law accepts it.
    Nothing,
    /// It adds positions, and declares distances.
    ClaimsDistances,
    /// It adds positions, and declares order.
    ClaimsOrder,
    /// It adds nothing, and declares positions.
    ClaimsPositions,
    /// It adds the whole number below a position without declaring it.
    RoundsDown,
    /// It adds the mean of all rows.
    ReadsTheFuture,
    /// It adds the mean of all scores to every score.
    ReadsFutureScores,
    /// It never uses its parameter.
    DeadParameter,
    /// It lists no parameter.
    Unlisted,
    /// It names the axis of layers second.
    LayersSecond,
    /// Every layer reads the slice of the first.
    OneLayerForAll,
    /// Its parameter starts outside its bounds.
    OutOfBounds,
    /// Its positions are a thousand times as large as tokens.
    TooLarge,
    /// It claims to be interpolated and reads the positions of the text.
    NotInterpolated,
    /// Once prepared, it reads other positions.
    ForgetsWhenPrepared,
    /// Each piece of a text begins at position 0.
    RestartsPieces,
    /// It adds a bias without declaring it.
    SilentBias,
    /// Its bias is a block, and it says that it needs no scores.
    SilentBlock,
    /// It describes vectors, and `scores` adds none.
    VectorsWithoutScores,
    /// It describes vectors without declaring it.
    SilentVectors,
    /// It declares a factor on scores, and has none.
    ClaimsToScale,
    /// It discards the scores that it is given without declaring it.
    SilentlyComputes,
    /// It makes q and k wider without declaring it.
    SilentlyWider,
    /// It appends sums of the channels of q and k, and declares channels of positions.
    ClaimsToAppend,
    /// It doubles q and k without declaring it.
    SilentlyMaps,
    /// It describes maps of q and k that it does not make.
    DescribesOtherMaps,
    /// It rotates q and k without declaring it.
    SilentRotation,
    /// It reads q in `scores` without declaring it.
    SilentlyReadsHeads,
    /// It discards the hidden state without declaring it.
    SilentlyReplaces,
    /// Its bias depends on the input of all rows without declaring it.
    SilentlyReadsInput,
}

use Mistake::*;

/// Every mistake, with the law that it breaks.
const MISTAKES: &[(Mistake, &str)] = &[
    (ClaimsDistances, "positions are read as declared"),
    (ClaimsOrder, "positions are read as declared"),
    (ClaimsPositions, "positions are read as declared"),
    (RoundsDown, "places between whole positions are read as declared"),
    (ReadsTheFuture, "attention is causal"),
    (ReadsFutureScores, "attention is causal"),
    (DeadParameter, "gradients reach every parameter"),
    (Unlisted, "parameters are listed"),
    (LayersSecond, "parameters are listed"),
    (OneLayerForAll, "a layer uses its own slice of a stacked parameter"),
    (OutOfBounds, "parameters start where training leaves them"),
    (TooLarge, "positions start about as large as tokens"),
    (NotInterpolated, "interpolation divides positions"),
    (ForgetsWhenPrepared, "pieces give what the whole text gives"),
    (RestartsPieces, "pieces give what the whole text gives"),
    (SilentBias, "biases and scores are declared"),
    (SilentBlock, "biases and scores are declared"),
    (VectorsWithoutScores, "biases and scores are declared"),
    (SilentVectors, "biases and scores are declared"),
    (ClaimsToScale, "biases and scores are declared"),
    (SilentlyComputes, "biases and scores are declared"),
    (SilentlyWider, "the use of q and k is declared"),
    (ClaimsToAppend, "the use of q and k is declared"),
    (SilentlyMaps, "the use of q and k is declared"),
    (DescribesOtherMaps, "maps described by distance are the maps"),
    (SilentRotation, "the use of q and k is declared"),
    (SilentlyReadsHeads, "the use of q and k is declared"),
    (SilentlyReplaces, "the use of inputs is declared"),
    (SilentlyReadsInput, "the use of inputs is declared"),
];

/// Adds `slope[layer]` times the position, over the training length, to every channel, and makes a mistake.
#[derive(Module, Debug)]
struct Wrong {
    /// `[layers, 1]`.
    slope: Param<Tensor<2>>,
    #[module(skip)]
    mistake: Mistake,
    #[module(skip)]
    scale: f64,
    #[module(skip)]
    train_length: usize,
}

impl Wrong {
    fn build(mistake: Mistake, sizes: &Dimensions, device: &Device) -> Encoding {
        let slope = if mistake == TooLarge { 20.0 } else { 0.035 };
        let slope = Init::new(0, device).constant([sizes.layers, 1], slope);
        Encoding::new("wrong", Self { slope, mistake, scale: 1.0, train_length: sizes.train_length })
    }

    /// `[1, length, 1]`.
    fn added(&self, rows: Rows<'_>) -> Tensor<3> {
        let layer = if self.mistake == OneLayerForAll { 0 } else { rows.layer };
        let scale = self.scale * self.train_length as f64;
        let read = |m: f64| if self.mistake == RoundsDown { m.floor() } else { m };
        let positions = rows.positions;
        let positions =
            if self.mistake == NotInterpolated { positions.in_text() } else { positions.values() };
        let places: Vec<f64> = positions.iter().map(|&m| read(m) / scale).collect();
        let places = upload(&places, &self.slope.device()).reshape([1, places.len(), 1]);
        let slope = self.slope.val();
        let slope = if self.mistake == DeadParameter { slope.detach() } else { slope };
        places * slope.slice_dim(0, layer..layer + 1).unsqueeze::<3>()
    }
}

impl Position for Wrong {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let axes: &[&str] = if self.mistake == LayersSecond { &["1", "layers"] } else { &["layers", "1"] };
        let slope = ParameterSpec::undecayed("slope", axes);
        match self.mistake {
            Unlisted => Vec::new(),
            OutOfBounds => vec![slope.bounded(1.0, 2.0)],
            _ => vec![slope],
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: match self.mistake {
                ClaimsDistances => PositionUse::Distances,
                ClaimsOrder => PositionUse::Order,
                _ => PositionUse::Positions,
            },
            head_use: if self.mistake == ClaimsToAppend { HeadUse::Appends } else { HeadUse::None },
            bias_use: match self.mistake {
                SilentBlock | SilentlyReadsInput => BiasUse::AllHeads,
                _ => BiasUse::None,
            },
            score_use: match self.mistake {
                VectorsWithoutScores => ScoreUse::AddsVectors,
                ClaimsToScale => ScoreUse::Scales,
                _ => ScoreUse::None,
            },
            ..Capabilities::default()
        }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        let restarted = Positions::range(0..rows.positions.length());
        let positions =
            if self.mistake == RestartsPieces && before.is_some() { &restarted } else { rows.positions };
        let added = self.added(Rows { positions, ..rows });
        *before = Some(hidden.clone());
        match self.mistake {
            ClaimsPositions => hidden,
            ReadsTheFuture => hidden.clone() + hidden.mean_dim(1) + added,
            SilentlyReplaces => hidden.zeros_like() + added,
            _ => hidden + added,
        }
    }

    fn rotation(&self, _layer: usize) -> Option<Rotation> {
        (self.mistake == SilentRotation).then(|| Rotation::new(Frequencies::geometric(1e4, 4), Layout::Half))
    }

    fn map_heads(&self, qk: [Tensor<4>; 2], _rows: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        qk.map(|x| match self.mistake {
            SilentlyWider => Tensor::cat(vec![x.clone(), x], 3),
            ClaimsToAppend => Tensor::cat(vec![x.clone(), x.sum_dim(3)], 3),
            SilentlyMaps => x * 2.0,
            _ => x,
        })
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let device = block.input.device();
        let length = block.rows.positions.length();
        match self.mistake {
            SilentBias => Bias::Slopes(Tensor::ones([2], &device)),
            SilentBlock => Bias::Block(Tensor::zeros([1, 2, block.queries.len(), length], &device)),
            SilentlyReadsInput => {
                let first = block.input.clone().slice_dim(1, 0..1).mean().abs();
                Bias::Slopes(first.reshape([1]).repeat_dim(0, 2))
            }
            _ => Bias::None,
        }
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let device = block.input.device();
        let vectors = |heads| ChosenRows::new(block, |_| 0).vectors(Tensor::ones([heads, 1, 4], &device));
        match self.mistake {
            DescribesOtherMaps if block.rows.positions.consecutive() => ScoreForm::Maps(MapsByDistance {
                query_bias: Tensor::ones([2, 4], &device),
                keys: vectors(2),
                key_bias: Tensor::zeros([2, 1], &device),
            }),
            VectorsWithoutScores | SilentVectors => {
                let vectors = RelativeVectors { keys: Some(vectors(1)), ..RelativeVectors::default() };
                ScoreForm::Vectors { terms: vectors.into(), factor: 2.0 }
            }
            _ => ScoreForm::Plain,
        }
    }

    fn needs_scores(&self, _positions: &Positions) -> bool {
        matches!(self.mistake, ReadsFutureScores | SilentlyReadsHeads | SilentlyComputes)
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, _block: QueryBlock<'_>) -> Tensor<4> {
        match self.mistake {
            ReadsFutureScores => scores.clone() * scores.mean_dim(3),
            SilentlyComputes => scores.zeros_like(),
            SilentlyReadsHeads => scores + heads.q.clone().sum_dim(3),
            _ => scores,
        }
    }

    fn prepare(&mut self, _text: &Positions) {
        if self.mistake == ForgetsWhenPrepared {
            self.scale = 2.0;
        }
    }
}

fn with(mistake: Mistake) -> impl Fn(&Dimensions, &Device) -> Encoding {
    move |sizes, device| Wrong::build(mistake, sizes, device)
}

#[test]
fn an_encoding_without_a_mistake_obeys_every_law() {
    for law in LAWS {
        check_law(law, &with(Nothing)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_law_rejects_an_encoding_that_breaks_it() {
    for law in LAWS {
        assert!(MISTAKES.iter().any(|(_, broken)| *broken == law.name), "no mistake breaks `{}`", law.name);
    }
    for &(mistake, broken) in MISTAKES {
        let law = LAWS.iter().find(|law| law.name == broken).unwrap();
        let build = with(mistake);
        let build: Build<'_> = &build;
        assert!(check_law(law, build).is_err(), "{mistake:?} obeys `{broken}`");
    }
}
