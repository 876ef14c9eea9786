//! The sentences, in the order of the page.

use super::Sentence;

pub(super) const SENTENCES: &[Sentence] = &[
    Sentence {
        text: "RoPE breaks past its training length: read as trained, it has a perplexity of {every-encoding|rope|direct|1} at L, \
               {every-encoding|rope|direct|2} at 2L and {every-encoding|rope|direct|8} at 8L.",
        claims: &["none, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "The angles that training never showed predict how far it breaks, and what the first token loses does not: over 25 models read three ways, the \
               rank correlation of the first with the loss is 0.66, that of the second -0.06. The share of attention beyond L predicts it best (0.83).",
        claims: &[
            "why-rope-breaks: base 10000, direct > base 10000, yarn at 8L",
            "why-rope-breaks: base 10000, rerope at 8L < base 10000, direct at L",
        ],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "Unseen angles are not all: HoPE meets none, and reads {why-rope-breaks|hope|direct|8|diagnostics} at 8L.",
        claims: &["why-rope-breaks: hope, direct < half, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "It unlearns long texts while it is trained: at 8L it reads {along-training|rope|direct|8|step=400} after 400 steps and \
               {along-training|rope|direct|8} after 1,500, while the perplexity at L falls from {along-training|rope|direct|1|step=400} to \
               {along-training|rope|direct|1}.",
        claims: &[
            "along-training: rope, step=1500 > rope, step=700 at 8L",
            "along-training: rope, step=1500 < rope, step=400 at L",
        ],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "ALiBi and FoX read 16L as well as L from the first steps on.",
        claims: &[
            "along-training: alibi, step=400 at 16L = alibi, step=400 at L",
            "along-training: fox, step=400 at 16L = fox, step=400 at L",
        ],
        pages: &["encodings/alibi", "encodings/fox"],
    },
    Sentence {
        text: "Position interpolation without further training is no help at 2L ({every-extension|rope|linear|2}): whether it is worse than no change \
               depends on the seed.",
        claims: &["rope, linear > rope, direct at 2L"],
        pages: &["extensions/linear"],
    },
    Sentence {
        text: "NTK-aware base conversion is better than no change at 2L ({every-extension|rope|ntk no log_n|2}) and at 4L \
               ({every-extension|rope|ntk no log_n|4}, where no change gives {every-extension|rope|direct no log_n|4}).",
        claims: &["rope, ntk < rope, direct at 2L", "rope, ntk < rope, direct at 4L"],
        pages: &["extensions/ntk"],
    },
    Sentence {
        text: "At 8L YaRN is far ahead of NTK: {every-encoding|rope|yarn|8} and {every-encoding|rope|ntk|8}.",
        claims: &["rope, yarn < rope, ntk at 8L"],
        pages: &["extensions/yarn"],
    },
    Sentence {
        text: "The two ramps that are called YaRN are two methods at short training lengths: at 8L that of the code reads \
               {every-extension|rope|yarn ramp=code no log_n|8}, that of the paper {every-extension|rope|yarn ramp=paper no log_n|8}.",
        claims: &["rope, yarn ramp=code < rope, yarn ramp=paper at 8L"],
        pages: &["extensions/yarn"],
    },
    Sentence {
        text: "Su's mixed base conversion is better than his fixed one at 8L.",
        claims: &["rope, su_ntk_mixed < rope, su_ntk_fixed at 8L"],
        pages: &["extensions/su_ntk_mixed"],
    },
    Sentence {
        text: "ReRoPE with a window of L/2 is better than every change of frequencies among the claims: \
               {every-extension|rope|rerope window=L/2 no log_n no allow_untrained|8} at 8L.",
        claims: &["rope, rerope window=L/2 < rope, su_ntk_mixed at 8L", "rope, rerope < rope, ntk at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "Its window must stay below L: with a window of L it reads {every-extension|rope|rerope window=L no log_n \
               allow_untrained=true|8} at 8L.",
        claims: &["rope, rerope window=L allow_untrained=true > rope, rerope window=L/2 at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "Leaky ReRoPE is better than the mixed base conversion too.",
        claims: &["rope, leaky_rerope < rope, su_ntk_mixed at 8L"],
        pages: &["extensions/leaky_rerope"],
    },
    Sentence {
        text: "Scaling by log n after the fact helps ReRoPE ({every-extension|rope|rerope window=L/2 log_n=true no allow_untrained|8} at \
               8L), whose distances stay known.",
        claims: &["rope, rerope window=L/2 log_n=true < rope, rerope window=L/2 at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "It does not help NTK.",
        claims: &["rope, ntk log_n=true < rope, ntk at 8L"],
        pages: &["extensions/ntk"],
    },
    Sentence {
        text: "Normalised keys make RoPE break later: {every-extension|key norm|direct no log_n|8} at 8L, read as trained.",
        claims: &["key norm, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "A layer with windowed RoPE below one without an encoding (HWFA) is nearly flat: {every-extension|hwfa|direct no log_n|8} at 8L.",
        claims: &["hwfa, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "HoPE, which drops the bands that never turn within L, breaks later than RoPE: {every-encoding|hope|direct|8} at 8L.",
        claims: &["hope, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "With a base so small that every band turns within L, RoPE breaks far later: at 8L it reads {rope-base|base 10|direct|8} with a base \
               of 10 and {rope-base|base 10000|direct|8} with one of 10,000. Within L that costs less than 0.05 nats.",
        claims: &[
            "rope-base: base 10, direct < base 10000, direct at 8L",
            "rope-base: base 10, direct = base 10000, direct at L",
        ],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "A base of 100, with which some bands do not turn, is not small enough: {rope-base|base 100|direct|8} at 8L.",
        claims: &["rope-base: base 10, direct < base 100, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "A base of 500,000 is as good as one of 10,000 within L ({rope-base|base 500000|direct|1} and {rope-base|base 10000|direct|1}).",
        claims: &["rope-base: base 500000, direct = base 10000, direct at L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "PoPE breaks later than RoPE too: {every-encoding|pope|direct|8} at 8L.",
        claims: &["pope, direct < rope, direct at 8L"],
        pages: &["encodings/pope"],
    },
    Sentence {
        text: "ALiBi is flat to 16L, but reads worse within L than RoPE in a model of two heads: {every-encoding|alibi|direct|1} at L.",
        claims: &["alibi, direct = alibi, window_baseline at 8L", "alibi, direct < rope, direct at 8L"],
        pages: &["encodings/alibi"],
    },
    Sentence {
        text: "What ALiBi lacks there is slopes: with 8 heads it reads {bias-family|alibi 8 heads|direct|1} at L, and with two heads whose slopes are \
               learned {bias-family|alibi learned|direct|1}.",
        claims: &[
            "bias-family: alibi 8 heads, direct < alibi, direct at L",
            "bias-family: alibi learned, direct < alibi, direct at L",
        ],
        pages: &["encodings/alibi"],
    },
    Sentence {
        text: "A small network of the distance is flat to 16L ({bias-family|cpb linear|direct|16}), whether it reads the distance or its \
               logarithm ({bias-family|cpb log|direct|16}).",
        claims: &[
            "bias-family: cpb linear, direct = cpb linear, window_baseline at 16L",
            "bias-family: cpb log, direct = cpb log, window_baseline at 16L",
        ],
        pages: &["encodings/cpb"],
    },
    Sentence {
        text: "Sandwich is flat to 16L too ({bias-family|sandwich|direct|16}). FIRE is not ({bias-family|fire|direct|16}, where the last L tokens alone \
               give {bias-family|fire|window_baseline|16}).",
        claims: &[
            "bias-family: sandwich, direct = sandwich, window_baseline at 16L",
            "bias-family: fire, direct = fire, window_baseline at 16L",
        ],
        pages: &["encodings/sandwich", "encodings/fire"],
    },
    Sentence {
        text: "KERPLE is flat and loses nothing within L: {every-encoding|kerple|direct|1} at L, {every-encoding|kerple|direct|16} at 16L.",
        claims: &["kerple, direct = kerple, window_baseline at 8L"],
        pages: &["encodings/kerple"],
    },
    Sentence {
        text: "T5's buckets hold to 2L and not to 16L, where all far distances share the last bucket.",
        claims: &["t5, direct > kerple, direct at 16L"],
        pages: &["encodings/t5"],
    },
    Sentence {
        text: "Transformer-XL's encoding extrapolates: {every-encoding|transformer_xl|direct|16} at 16L.",
        claims: &["transformer_xl, direct = transformer_xl, window_baseline at 8L"],
        pages: &["encodings/transformer_xl"],
    },
    Sentence {
        text: "So does Shaw's, as long as the vector that all far distances share is one that training reads: \
               {every-encoding|shaw|direct|8} at 8L with `p_max` = L/2. With `p_max` = L, whose last vector no text of L tokens reads, five seeds \
               had a perplexity of 29.1.",
        claims: &["shaw, direct = shaw, window_baseline at 8L"],
        pages: &["encodings/shaw"],
    },
    Sentence {
        text: "Sinusoidal positions do not extrapolate: {every-encoding|sinusoidal|direct|1} at L, {every-encoding|sinusoidal|direct|2} at 2L.",
        claims: &["sinusoidal, direct = sinusoidal, window_baseline at 8L"],
        pages: &["encodings/sinusoidal"],
    },
    Sentence {
        text: "Neither do the linear recursion nor FLOATER, which leave the range of training.",
        claims: &[
            "recursive, direct = recursive, window_baseline at 8L",
            "floater, direct = floater, window_baseline at 8L",
        ],
        pages: &["encodings/recursive", "encodings/floater"],
    },
    Sentence {
        text: "A table of learned positions is best stretched: interpolated it reads {every-encoding|learned|linear|8} at 8L, with a \
               hierarchical table {every-encoding|learned hierarchical|direct|8}, with rows that nothing trained \
               {every-encoding|learned|table|8}.",
        claims: &[
            "learned, linear < learned, table at 8L",
            "learned hierarchical, direct < learned, linear at 8L",
        ],
        pages: &["encodings/learned", "extensions/table"],
    },
    Sentence {
        text: "Of digits, conversion to a larger base beats no change, and interpolation beats both: {every-encoding|radix|direct|8} as \
               trained, {every-encoding|radix|convert|8} converted, {every-encoding|radix|linear|8} interpolated at 8L.",
        claims: &[
            "radix, convert < radix, direct at 8L",
            "radix, linear < radix, direct at 8L",
            "radix, convert < radix, linear at 8L",
        ],
        pages: &["encodings/radix", "extensions/convert"],
    },
    Sentence {
        text: "Positions that are multiplied with the tokens are learned worse than those that are added: \
               {every-encoding|multiplicative|direct|1} and {every-encoding|learned|direct|1} at L.",
        claims: &["multiplicative, direct > learned, direct at L"],
        pages: &["encodings/multiplicative"],
    },
    Sentence {
        text: "Without any encoding a model this small reads worse within L ({every-encoding|none|direct|1}) and breaks slowly \
               ({every-encoding|none|direct|8} at 8L).",
        claims: &["none, direct > rope, direct at L"],
        pages: &["encodings/none"],
    },
    Sentence {
        text: "With four layers and 12 million tokens it learns order, and then breaks past L as RoPE does, but more slowly: \
               {no-encoding|none 3e-3|direct|1} at L and {no-encoding|none 3e-3|direct|8} at 8L, RoPE {no-encoding|rope 3e-3|direct|1} and \
               {no-encoding|rope 3e-3|direct|8}.",
        claims: &[
            "no-encoding: none 3e-3 at 8L > none 3e-3 at L",
            "no-encoding: none 3e-3 < rope 3e-3 at 8L",
            "no-encoding: none 3e-3 > none 3e-3, step=500 at 8L",
        ],
        pages: &["encodings/none", "encodings/rope"],
    },
    Sentence {
        text: "Without an encoding the learning rate decides how well order is learned: at 1e-3 {no-encoding|none 1e-3|direct|1} at L, at 3e-3 \
               {no-encoding|none 3e-3|direct|1}; and the model that learned it worse reads 8L better ({no-encoding|none 1e-3|direct|8}).",
        claims: &["no-encoding: none 1e-3 > none 3e-3 at L", "no-encoding: none 1e-3 < none 3e-3 at 8L"],
        pages: &["encodings/none"],
    },
    Sentence {
        text: "ALiBi trained on 512 tokens reads 8,192 as well as 512 ({train-length|alibi, L=512|direct|16}), and trained on 64 it reads 1,024 as well as 64.",
        claims: &[
            "train-length: alibi, L=512 at 16L = alibi, L=512 at L",
            "train-length: alibi, L=64 at 16L = alibi, L=64 at L",
        ],
        pages: &["encodings/alibi"],
    },
    Sentence {
        text: "What ALiBi seems to gain with length is the early-token curse: it gains in windows side by side, and nothing where every token has half a \
               window of context.",
        claims: &[
            "train-length: alibi, L=512 at 16L < alibi, L=512 at L",
            "train-length: alibi, L=512 at 16L = alibi, L=512 at L",
        ],
        pages: &["encodings/alibi"],
    },
    Sentence {
        text: "RoPE trained on 512 tokens breaks past them as RoPE trained on 64 does ({train-length|rope, L=512|direct|1} at L, \
               {train-length|rope, L=512|direct|16} at 16L).",
        claims: &["train-length: rope, L=512 at 16L > rope, L=512 at L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "A window of L/2 in every layer keeps RoPE flat, trained on 64 tokens or on 256, and costs less than 0.05 nats within L (3 to 12 seeds).",
        claims: &[
            "qk-norm: no norm, window, L=64 at 8L = no norm, window, L=64 at L",
            "qk-norm: no norm, window, L=256 at 8L = no norm, window, L=256 at L",
            "qk-norm: no norm, window, L=256 = no norm, full, L=256 at L",
        ],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "RMS norms of queries and keys make RoPE break later, and a norm of the keys alone later still: trained on 256 tokens, \
               {qk-norm|no norm, full, L=256|direct|8}, {qk-norm|rms, full, L=256|direct|8} and {qk-norm|key norm, full, L=256|direct|8} at 8L.",
        claims: &[
            "qk-norm: rms, full, L=256 < no norm, full, L=256 at 8L",
            "qk-norm: key norm, full, L=256 < rms, full, L=256 at 8L",
        ],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "On bytes, with L = 256, RoPE breaks at once, and biases by distance are flat to 4,096 bytes: a network of the distance, ALiBi and FoX.",
        claims: &[
            "bytes: rope > alibi at 8L",
            "bytes: cpb at 16L = cpb at L",
            "bytes: alibi at 16L = alibi at L",
            "bytes: fox at 16L = fox at L",
        ],
        pages: &["encodings/rope", "encodings/cpb", "encodings/alibi", "encodings/fox"],
    },
    Sentence {
        text: "xPos breaks later than RoPE there, and breaks all the same.",
        claims: &["bytes: xpos < rope at 8L"],
        pages: &["encodings/xpos"],
    },
    Sentence {
        text: "A softmax whose scores are multiplied by a learned multiple of ln n harms text past L: with it KERPLE's power reads 16L with \
               {softmax|kerple power, scalable|direct|16}, without it with {softmax|kerple power, softmax|direct|16}. Within L it changes little.",
        claims: &[
            "softmax: kerple power, scalable < kerple power, softmax at 16L",
            "softmax: alibi, scalable < alibi, softmax at 16L",
            "softmax: alibi, scalable = alibi, softmax at L",
        ],
        pages: &["encodings/kerple", "encodings/alibi"],
    },
    Sentence {
        text: "In retrieval it helps: of numbers that stand up to 16L back, ALiBi finds {softmax-passkey|alibi, scalable|direct|16|task} per cent with it and \
               {softmax-passkey|alibi, softmax|direct|16|task} without it.",
        claims: &["softmax-passkey: alibi, scalable > alibi, softmax at 16L"],
        pages: &["encodings/alibi"],
    },
    Sentence {
        text: "A model without an encoding finds a number further away than one with RoPE: {softmax-passkey|none, softmax|direct|4|task} and \
               {softmax-passkey|rope, softmax|direct|4|task} per cent at 4L.",
        claims: &["softmax-passkey: none, softmax > rope, softmax at 4L"],
        pages: &["encodings/none", "encodings/rope"],
    },
    Sentence {
        text: "Strings of 24 letters are copied by models that were trained on 20: without an encoding {no-encoding-tasks|copy, none|direct|1.2|task} per cent, \
               with RoPE {no-encoding-tasks|copy, rope|direct|1.2|task}, which copies 20 letters better.",
        claims: &["no-encoding-tasks: copy, none > copy, rope at 24"],
        pages: &["encodings/none", "encodings/rope"],
    },
    Sentence {
        text: "Fine-tuned at 8L, YaRN needs ten steps ({interpolation|yarn 8x|direct|8|step=1510} at 8L), interpolation has not caught up after 400 \
               ({interpolation|linear 8x|direct|8}, where YaRN reads {interpolation|yarn 8x|direct|8}).",
        claims: &[
            "interpolation: yarn 8x, step=1510 < linear 8x, step=1510 at 8L",
            "interpolation: linear 8x = yarn 8x at 8L",
        ],
        pages: &["extensions/yarn", "extensions/linear"],
    },
    Sentence {
        text: "Fine-tuning at 8L without any change of the positions works too, in more steps: {interpolation|direct 8x|direct|8|step=1510} after ten and \
               {interpolation|direct 8x|direct|8} after 400.",
        claims: &["interpolation: direct 8x > yarn 8x at 8L", "interpolation: direct 8x < linear 8x at 8L"],
        pages: &["extensions/direct"],
    },
    Sentence {
        text: "At 2L interpolation and no change are level after 400 steps: {interpolation|linear 2x|direct|2} and {interpolation|direct 2x|direct|2}.",
        claims: &["interpolation: direct 2x = linear 2x at 2L"],
        pages: &["extensions/linear"],
    },
    Sentence {
        text: "Reading further than L helps where the answer stands there: of numbers to find among random letters at 8L, ReRoPE finds \
               {who-gains|needle|rerope no log_n|8|task} per cent, the last L tokens alone {who-gains|needle|window_baseline|8|task}.",
        claims: &["needle, rerope > needle, window_baseline at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "Where distances count too, ReRoPE gains more than YaRN, and YaRN more than NTK: of letters to repeat at 8L they get \
               {who-gains|induction|rerope no log_n|8|task}, {who-gains|induction|yarn ramp=code no log_n|8|task} and \
               {who-gains|induction|ntk no log_n|8|task} per cent right, no change {who-gains|induction|direct no log_n|8|task}.",
        claims: &[
            "induction, rerope > induction, yarn ramp=code at 8L",
            "induction, yarn ramp=code > induction, ntk at 8L",
            "induction, ntk > induction, direct at 4L",
        ],
        pages: &["extensions/rerope", "extensions/yarn", "extensions/ntk"],
    },
    Sentence {
        text: "Interpolation finds ({who-gains|needle|linear|32|task} per cent at 32L), but loses its neighbours: in the second task it is right in \
               {who-gains|induction|linear|8|task} per cent at 8L, which is worse than no change.",
        claims: &["needle, linear > needle, direct at 8L", "induction, linear < induction, direct at 8L"],
        pages: &["extensions/linear"],
    },
    Sentence {
        text: "A mask cannot gain there: it does not see the answer.",
        claims: &["induction, window < induction, direct at 8L", "needle, sinks < needle, direct at 4L"],
        pages: &["extensions/window", "extensions/sinks"],
    },
    Sentence {
        text: "log n after the fact helps retrieval, with known distances ({who-gains|induction|rerope log_n=true|32|task} per cent at 32L with ReRoPE, \
               {who-gains|induction|rerope no log_n|32|task} without it) and with new ones.",
        claims: &[
            "induction, rerope log_n=true > induction, rerope at 32L",
            "needle, direct log_n=true > needle, direct at 8L",
        ],
        pages: &["extensions/rerope"],
    },
];
