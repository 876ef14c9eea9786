//! All rows as CSV.

use crate::table::perplexity;
use longwave_core::{Error, Result};
use longwave_eval::token_log::quoted;
use longwave_eval::{Difference, ResultRow};

const HEADER: &str = "run,seed,encoding,extend,extend_config,protocol,corpus,split,checkpoint,step,stage,\
                      train_length,length,target,max_length,window_stride,windows_per_document,stride,passage,tokens,\
                      documents,skipped_documents,bytes,nll,nll_se,ppl,ppl_se,bpb,accuracy,accuracy_se,\
                      exact_match,exact_match_se,against,difference,difference_se,config_hash,device,threads,version\n";

/// All rows as CSV, one line each, numbers in full.
///
/// # Errors
/// An extension's config has no JSON form.
pub fn csv(rows: &[ResultRow]) -> Result<String> {
    let mut text = HEADER.to_owned();
    for row in rows {
        let settings = &row.settings;
        let config = serde_json::to_string(&row.extend_config).map_err(|error| {
            Error::failed(format!("the config of `{}` has no JSON form: {error}", row.extend))
        })?;
        let optional = |value: Option<usize>| value.map(|value| value.to_string()).unwrap_or_default();
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let fields = [
            row.run.clone(),
            row.seed.to_string(),
            row.encoding.clone(),
            row.extend.clone(),
            config,
            settings.protocol.to_string(),
            row.corpus.clone().unwrap_or_default(),
            settings.split.to_string(),
            row.checkpoint.clone(),
            row.step.to_string(),
            row.stage.to_string(),
            settings.train_length.to_string(),
            settings.length.to_string(),
            optional(settings.target),
            optional(settings.max_length),
            optional(settings.window_stride),
            optional(settings.windows_per_document),
            optional(settings.stride),
            optional(settings.passage),
            row.tokens.to_string(),
            row.documents.to_string(),
            row.skipped_documents.to_string(),
            row.bytes.to_string(),
            number(Some(row.nll)),
            number(row.nll_se),
            number(Some(perplexity(row))),
            number(row.ppl_se()),
            number(row.bpb),
            number(row.accuracy),
            number(row.accuracy_se),
            number(row.exact_match),
            number(row.exact_match_se),
            row.difference.as_ref().map_or_else(String::new, against),
            number(row.difference.as_ref().map(|difference| difference.nll)),
            number(row.difference.as_ref().and_then(|difference| difference.nll_se)),
            row.config_hash.clone(),
            row.device.clone(),
            row.threads.to_string(),
            row.version.clone(),
        ];
        text += &fields.map(|field| quoted(&field)).join(",");
        text.push('\n');
    }
    Ok(text)
}

/// The reading that a difference is taken to: `window_baseline`, or the config of an extension as JSON.
fn against(difference: &Difference) -> String {
    difference.against.as_str().map_or_else(|| difference.against.to_string(), str::to_owned)
}
