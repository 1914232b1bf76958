//! The operations of a commit. Conditions are all checked before anything is written, so every one that fails is
//! named and nothing is half-written.

use ports::commit::{Commit, Conflict, Letter, Op};
use ports::stored_letter::StoredLetter;
use rusqlite::{Connection, OptionalExtension, params};

use crate::database::millis;

/// Writes all of a commit, or names what was in the way.
pub(crate) fn apply(c: &Connection, commit: &Commit) -> rusqlite::Result<Vec<Conflict>> {
    let mut conflicts = vec![];
    for op in &commit.ops {
        check(c, op, &mut conflicts)?;
    }
    if conflicts.is_empty() {
        for op in &commit.ops {
            write(c, commit, op)?;
        }
    }
    Ok(conflicts)
}

fn version_of(c: &Connection, key: &domain::Key) -> rusqlite::Result<Option<i64>> {
    let sql = format!("SELECT version FROM {} WHERE key = ?1", key.kind.table());
    c.prepare_cached(&sql)?.query_row([&key.text], |r| r.get(0)).optional()
}

fn check(c: &Connection, op: &Op, conflicts: &mut Vec<Conflict>) -> rusqlite::Result<()> {
    match op {
        Op::Put { row, replaces, .. } => {
            let found = version_of(c, &row.key)?.map(i64::unsigned_abs);
            match (found, replaces.map(|v| v.0)) {
                (Some(_), None) => conflicts.push(Conflict::Exists(row.key.clone())),
                (found, Some(expected)) if found != Some(expected) => {
                    conflicts.push(Conflict::Changed(row.key.clone()));
                }
                (None, None) | (Some(_) | None, Some(_)) => {}
            }
        }
        Op::Unchanged { key, version } => {
            if version_of(c, key)?.map(i64::unsigned_abs) != Some(version.0) {
                conflicts.push(Conflict::Changed(key.clone()));
            }
        }
        Op::Count { counter, by } => {
            for (name, by) in by {
                let sql = "SELECT free, lim FROM Counters WHERE counter = ?1 AND name = ?2";
                let found = c
                    .prepare_cached(sql)?
                    .query_row(params![counter, name], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)))
                    .optional()?;
                let (free, limit) = found.unwrap_or((0, 0));
                // Giving back is never refused; taking needs what is free.
                if found.is_none() || (*by > 0 && free < *by) {
                    conflicts.push(Conflict::Limit {
                        counter: counter.clone(),
                        name: name.clone(),
                        used: limit - free,
                        limit,
                        by: *by,
                    });
                }
            }
        }
        Op::SetLimit { counter, name, from, .. } => {
            let sql = "SELECT lim FROM Counters WHERE counter = ?1 AND name = ?2";
            let found: Option<i64> =
                c.prepare_cached(sql)?.query_row(params![counter, name], |r| r.get(0)).optional()?;
            if found != *from {
                conflicts.push(Conflict::LimitMoved { counter: counter.clone(), name: name.clone() });
            }
        }
        Op::Claim { name, now, .. } => {
            let sql = "SELECT until FROM Claims WHERE name = ?1";
            let until: Option<i64> = c.prepare_cached(sql)?.query_row([name], |r| r.get(0)).optional()?;
            if until.is_some_and(|until| until > millis(*now)) {
                conflicts.push(Conflict::Claimed(name.clone()));
            }
        }
    }
    Ok(())
}

fn write(c: &Connection, commit: &Commit, op: &Op) -> rusqlite::Result<()> {
    match op {
        Op::Put { row, letters, .. } => {
            let sql = format!(
                "INSERT INTO {} (key, version, commit_id, tenant, environment, pool, state, due, body, begun)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (key) DO UPDATE SET version = ?2, commit_id = ?3, tenant = ?4, environment = ?5,
                   pool = ?6, state = ?7, due = ?8, body = ?9, begun = ?10",
                row.key.kind.table()
            );
            let facets = &row.facets;
            c.prepare_cached(&sql)?.execute(params![
                row.key.text,
                i64::try_from(row.version.0).unwrap_or(i64::MAX),
                commit.id.0.to_string(),
                facets.tenant.as_str(),
                facets.environment.as_ref().map(|e| e.as_str()),
                facets.pool.as_ref().map(|p| p.as_str()),
                facets.state,
                facets.due.map(millis),
                row.body,
                facets.begun.map(millis),
            ])?;
            for letter in letters {
                write_letter(c, letter)?;
            }
        }
        Op::Unchanged { .. } => {}
        Op::Count { counter, by } => {
            for (name, by) in by {
                let sql = "UPDATE Counters SET free = free - ?3 WHERE counter = ?1 AND name = ?2";
                c.prepare_cached(sql)?.execute(params![counter, name, by])?;
            }
        }
        Op::SetLimit { counter, name, from, to } => {
            let sql = "INSERT INTO Counters (counter, name, free, lim) VALUES (?1, ?2, ?3, ?3)
                 ON CONFLICT (counter, name) DO UPDATE SET free = free + ?3 - ?4, lim = ?3";
            c.prepare_cached(sql)?.execute(params![counter, name, to, from.unwrap_or(0)])?;
        }
        Op::Claim { name, until, .. } => {
            let sql = "INSERT INTO Claims (name, until, commit_id) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET until = ?2, commit_id = ?3";
            c.prepare_cached(sql)?.execute(params![name, millis(*until), commit.id.0.to_string()])?;
        }
    }
    Ok(())
}

fn write_letter(c: &Connection, letter: &Letter) -> rusqlite::Result<()> {
    let json = |e: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
    let stored = StoredLetter::of(letter).map_err(json)?;
    let body = serde_json::to_vec(&stored).map_err(json)?;
    let sql = "INSERT OR IGNORE INTO Letters (id, body) VALUES (?1, ?2)";
    c.prepare_cached(sql)?.execute(params![letter.id.to_string(), body])?;
    Ok(())
}
