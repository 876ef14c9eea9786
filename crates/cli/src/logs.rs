//! A line of the log: level, place and message, whose characters are all shown.

use longwave_core::text::shown_lines;
use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

pub(crate) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = String::new();
        context.format_fields(Writer::new(&mut message), event)?;
        let (level, place) = (event.metadata().level(), event.metadata().target());
        let (colour, dim, off) = if writer.has_ansi_escapes() {
            let colour = match *level {
                Level::ERROR => "\u{1b}[31m",
                Level::WARN => "\u{1b}[33m",
                Level::INFO => "\u{1b}[32m",
                _ => "\u{1b}[34m",
            };
            (colour, "\u{1b}[2m", "\u{1b}[0m")
        } else {
            ("", "", "")
        };
        writeln!(writer, "{colour}{level:>5}{off} {dim}{place}:{off} {}", shown_lines(&message))
    }
}
