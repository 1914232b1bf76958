//! W3C trace context, carried from event to message to event: each piece of work is a span, named by the message that
//! it handles, so that the same message handled twice is the same span.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// `00-TRACE-SPAN-FLAGS`: which trace, which span of it caused this, and whether it is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// It is no `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no W3C traceparent: 00-, 32 hex digits, -, 16 hex digits, -, 2 hex digits")]
pub struct NoTrace(pub String);

/// Everything is looked at.
const SAMPLED: u8 = 1;
/// Keeps what is made of names apart from other ids that are.
const NAMESPACE: Uuid = Uuid::from_u128(0x2b1c_7f0a_55d3_5c0e_8a1f_93d0_61f4_7ac3);

impl TraceParent {
    /// The trace of a chain of work that nobody has begun to trace.
    pub fn of_chain(correlation: &str) -> TraceParent {
        let trace = Uuid::new_v5(&NAMESPACE, correlation.as_bytes()).as_u128();
        TraceParent { trace, span: span_of(Uuid::from_u128(trace)), flags: SAMPLED }
    }

    /// The span of the work that handles a message, in the same trace.
    pub fn handling(self, message: Uuid) -> TraceParent {
        TraceParent { span: span_of(message), ..self }
    }

    /// The trace's id, 32 hex digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The span's id, 16 hex digits.
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span)
    }

    /// As AWS X-Ray writes it.
    pub fn x_ray(self) -> String {
        let id = self.trace_id();
        let (begin, rest) = id.split_at(8);
        format!("Root=1-{begin}-{rest};Parent={};Sampled={}", self.span_id(), self.flags & SAMPLED)
    }
}

/// A span's id out of a message's; never nought, which means none.
fn span_of(message: Uuid) -> u64 {
    let (high, low) = message.as_u64_pair();
    (high ^ low).max(1)
}

impl FromStr for TraceParent {
    type Err = NoTrace;

    fn from_str(text: &str) -> Result<TraceParent, NoTrace> {
        let none = || NoTrace(text.chars().take(60).collect());
        let hex = |part: &str, digits: usize| {
            let plain = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            if part.len() == digits && plain { u128::from_str_radix(part, 16).ok() } else { None }
        };
        let parts: Vec<&str> = text.split('-').collect();
        // A later version may have more behind it; 255 is no version.
        let [version, trace, span, flags, ..] = parts[..] else { return Err(none()) };
        let version = hex(version, 2).ok_or_else(none)?;
        if version == 255 || (version == 0 && parts.len() != 4) {
            return Err(none());
        }
        let trace = hex(trace, 32).filter(|t| *t != 0).ok_or_else(none)?;
        let span = hex(span, 16).filter(|s| *s != 0).ok_or_else(none)?;
        let flags = hex(flags, 2).ok_or_else(none)?;
        let (Ok(span), Ok(flags)) = (u64::try_from(span), u8::try_from(flags)) else { return Err(none()) };
        Ok(TraceParent { trace, span, flags })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl TryFrom<String> for TraceParent {
    type Error = NoTrace;
    fn try_from(text: String) -> Result<TraceParent, NoTrace> {
        text.parse()
    }
}

impl From<TraceParent> for String {
    fn from(trace: TraceParent) -> String {
        trace.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_is_read_and_written_and_goes_on_under_another_span() {
        let given: TraceParent = GIVEN.parse().unwrap();
        assert_eq!(given.to_string(), GIVEN);
        let message = Uuid::from_u128(7);
        let next = given.handling(message);
        assert_eq!(next.trace_id(), given.trace_id());
        assert_ne!(next.span_id(), given.span_id());
        assert_eq!(next, given.handling(message));
        assert_eq!(
            given.x_ray(),
            "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1"
        );
        assert_eq!(
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-later".parse(),
            Ok(TraceParent { flags: 0, ..given })
        );
    }

    #[test]
    fn a_chain_of_its_own_has_one_trace() {
        assert_eq!(TraceParent::of_chain("work-1"), TraceParent::of_chain("work-1"));
        assert_ne!(TraceParent::of_chain("work-1").trace_id(), TraceParent::of_chain("work-2").trace_id());
        let own = TraceParent::of_chain("");
        assert_eq!(own.to_string().parse(), Ok(own));
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(
                wrong.parse::<TraceParent>(),
                Err(NoTrace(wrong.chars().take(60).collect())),
                "{wrong}"
            );
        }
    }
}
