//! Parts of timestamps, in UTC or a zone, and of durations.

use crate::env::{Function, Implementation, Overload};
use crate::error::Error;
use crate::types::Type;
use crate::value::{Local, Value};

/// Functions on timestamps: name, id, id with a zone, and the part of the date and time.
macro_rules! parts {
    ($($name:literal $id:literal $zoned:literal $function:ident $part:expr;)*) => {
        $(fn $function<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
            let part: fn(&Local) -> i64 = $part;
            zoned(args).map(|at| Value::Int(part(&at)))
        })*

        fn of_timestamps() -> Vec<Function> {
            vec![$(Function::new($name, [
                Overload::member($id, [Type::Timestamp], Type::Int, $function),
                Overload::member($zoned, [Type::Timestamp, Type::String], Type::Int, $function),
            ])),*]
        }
    };
}

parts! {
    "getFullYear" "timestamp_to_year" "timestamp_to_year_with_tz" year |at| at.year;
    "getMonth" "timestamp_to_month" "timestamp_to_month_with_tz" month |at| i64::from(at.at.month()) - 1;
    "getDayOfYear" "timestamp_to_day_of_year" "timestamp_to_day_of_year_with_tz" day_of_year
        |at| i64::from(at.at.day_of_year()) - 1;
    "getDayOfMonth" "timestamp_to_day_of_month" "timestamp_to_day_of_month_with_tz" day_of_month
        |at| i64::from(at.at.day()) - 1;
    "getDate" "timestamp_to_day_of_month_1_based" "timestamp_to_day_of_month_1_based_with_tz" date
        |at| i64::from(at.at.day());
    "getDayOfWeek" "timestamp_to_day_of_week" "timestamp_to_day_of_week_with_tz" day_of_week
        |at| i64::from(at.at.weekday().to_sunday_zero_offset());
    "getHours" "timestamp_to_hours" "timestamp_to_hours_with_tz" hours |at| i64::from(at.at.hour());
    "getMinutes" "timestamp_to_minutes" "timestamp_to_minutes_with_tz" minutes
        |at| i64::from(at.at.minute());
    "getSeconds" "timestamp_to_seconds" "timestamp_to_seconds_tz" seconds |at| i64::from(at.at.second());
    "getMilliseconds" "timestamp_to_milliseconds" "timestamp_to_milliseconds_with_tz" milliseconds
        |at| i64::from(at.at.millisecond());
}

fn zoned(args: &[Value<'_>]) -> Result<Local, Error> {
    match args {
        [Value::Timestamp(at)] => at.in_utc(),
        [Value::Timestamp(at), Value::String(zone)] => at.in_zone(zone),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = of_timestamps();
    let span = |name, id, implementation: Implementation| {
        Function::new(name, [Overload::member(id, [Type::Duration], Type::Int, implementation)])
    };
    functions.extend([
        span("getHours", "duration_to_hours", span_hours),
        span("getMinutes", "duration_to_minutes", span_minutes),
        span("getSeconds", "duration_to_seconds", span_seconds),
        span("getMilliseconds", "duration_to_milliseconds", span_milliseconds),
    ]);
    functions
}

fn in_units<'a>(args: &[Value<'a>], nanoseconds: i64) -> Result<Value<'a>, Error> {
    match args {
        [Value::Duration(span)] => Ok(Value::Int(span.nanoseconds() / nanoseconds)),
        _ => Err(Error::NoSuchOverload),
    }
}

fn span_hours<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    in_units(args, 3_600_000_000_000)
}

fn span_minutes<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    in_units(args, 60_000_000_000)
}

fn span_seconds<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    in_units(args, 1_000_000_000)
}

fn span_milliseconds<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    in_units(args, 1_000_000)
}
