//! Standard output. Whoever reads it may stop in the middle, as `head` does: the command then ends quietly.

use std::fmt::Arguments;
use std::io::{self, Write};

use super::client::CliError;
use super::exit;

/// Prints a line, or says that nobody reads any more.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// A line.
pub fn line(text: Arguments<'_>) -> Result<(), CliError> {
    written(writeln!(io::stdout(), "{text}"))
}

/// A text as it is.
pub fn text(text: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout();
    written(out.write_all(text).and_then(|()| out.flush()))
}

/// A line for the person, beside the output; where it can't be said, nobody is there to hear it.
pub fn aside(text: Arguments<'_>) {
    drop(writeln!(io::stderr(), "{text}"));
}

fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(CliError::new(exit::CLOSED, "")),
        Err(e) => Err(CliError::new(exit::FAILED, format!("nothing can be written to the output: {e}"))),
        Ok(()) => Ok(()),
    }
}
