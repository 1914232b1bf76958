//! What a piece of work knows of itself: the message that caused it, its time, its attempt, its deadline.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// The context of one delivery.
#[derive(Debug, Clone)]
pub struct Cx {
    /// The message that is being handled.
    pub message: Uuid,
    /// The chain of work that it belongs to.
    pub correlation: String,
    /// When handling began.
    pub now: DateTime<Utc>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// When handling has to have ended.
    pub deadline: DateTime<Utc>,
}
