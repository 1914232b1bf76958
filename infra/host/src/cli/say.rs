//! Standard output. Whoever reads it may stop in the middle, as `head` does: the command then ends quietly.
//!
//! What programs and other people wrote may steer a terminal, so that it shows something else than what is approved:
//! what does so is shown as its number.

use std::fmt::Arguments;
use std::io::{self, Write};

use events::is_unshowable;

use super::client::CliError;
use super::exit;

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// A line, or several.
pub fn line(text: Arguments<'_>) -> Result<(), CliError> {
    written(writeln!(io::stdout(), "{}", shown(&text.to_string())))
}

/// A text of many lines.
pub fn text(text: &str) -> Result<(), CliError> {
    raw(shown(text).as_bytes())
}

/// JSON, on lines of its own. serde leaves some controls, and what turns text around, as they are; escaped, it is the
/// same JSON.
pub fn json(text: &str) -> Result<(), CliError> {
    let json = escaped(text, &['\n'], |c| format!("\\u{:04x}", u32::from(c)));
    written(writeln!(io::stdout(), "{json}"))
}

/// What this program alone wrote, as it is.
pub fn raw(text: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout();
    written(out.write_all(text).and_then(|()| out.flush()))
}

/// A line for the person, beside the output; where it can't be said, nobody is there to hear it.
pub fn aside(text: Arguments<'_>) {
    drop(writeln!(io::stderr(), "{}", shown(&text.to_string())));
}

/// A text that steers no terminal.
pub fn shown(text: &str) -> String {
    escaped(text, &['\n', '\t'], |c| c.escape_default().to_string())
}

/// The same of what stands on one line, so that it can't look like a line of ours.
pub fn one_line(text: &str) -> String {
    escaped(text, &[], |c| c.escape_default().to_string())
}

fn escaped(text: &str, kept: &[char], escape: impl Fn(char) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unshowable(c.encode_utf8(&mut [0; 4])) && !kept.contains(&c) {
            out.push_str(&escape(c));
        } else {
            out.push(c);
        }
    }
    out
}

fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(CliError::new(exit::CLOSED, "")),
        Err(e) => Err(CliError::new(exit::FAILED, format!("nothing can be written to the output: {e}"))),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_its_number() {
        let hostile = "a\u{1b}[2Jb\u{202E}c\u{9b}d\re\n\tfé";
        assert_eq!(shown(hostile), "a\\u{1b}[2Jb\\u{202e}c\\u{9b}d\\re\n\tfé");
        assert_eq!(one_line("a\nroute: b"), "a\\nroute: b");
    }
}
