//! Sidereal time at a GPS time, with the leap seconds between GPS and UTC.

use std::f64::consts::PI;

/// GPS second from which on GPS is ahead of UTC by one more second, starting with the first.
///
/// # Source
/// IERS Bulletin C; none has been announced since January 2017.
const LEAP_SECONDS: [i64; 18] = [
    46_828_800,
    78_364_801,
    109_900_802,
    173_059_203,
    252_028_804,
    315_187_205,
    346_723_206,
    393_984_007,
    425_520_008,
    457_056_009,
    504_489_610,
    551_750_411,
    599_184_012,
    820_108_813,
    914_803_214,
    1_025_136_015,
    1_119_744_016,
    1_167_264_017,
];

/// Seconds by which GPS time is ahead of UTC.
pub fn leap_seconds(gps_time: f64) -> i64 {
    LEAP_SECONDS
        .iter()
        .take_while(|&&start| gps_time >= start as f64)
        .count() as i64
}

/// Greenwich mean sidereal time at a GPS time, in [0, 2 pi).
///
/// The whole seconds become a Julian date in UTC, `JD = 2444244.5 + (s - leap) / 86400`; with
/// `T = (JD - 2451545) / 36525` and the fraction of the second `t` in the same unit the angle is
/// `(67310.54841 + (8640184.812866 + 3155760000)(T + t) + 0.093104 (T + t)^2 - 6.2e-6 (T + t)^3) pi / 43200`.
///
/// # Units
/// Seconds in, radians out.
///
/// # Numerics
/// The Julian date is rounded to 4e-5 s as in the reference, so the angle agrees with the
/// reference's to 1e-12 and with the sky's to 3e-9.
///
/// # Source
/// The expression of 1982 for mean sidereal time (Aoki et al., Astronomy and Astrophysics 105, 359).
pub fn greenwich_mean_sidereal_time(gps_time: f64) -> f64 {
    let seconds = gps_time.floor();
    let utc = seconds - leap_seconds(gps_time) as f64;
    let julian_date = 2_444_244.5 + utc / 86_400.0;
    let whole = (julian_date - 2_451_545.0) / 36_525.0;
    let part = (gps_time - seconds) / (36_525.0 * 86_400.0);
    let centuries = whole + part;
    let slow = (-6.2e-6 * centuries + 0.093_104) * centuries * centuries + 67_310.548_41;
    // The fast terms one after the other, small ones first, as rounding matters here.
    let angle = slow
        + 8_640_184.812_866 * part
        + 3_155_760_000.0 * part
        + 8_640_184.812_866 * whole
        + 3_155_760_000.0 * whole;
    (angle * PI / 43_200.0).rem_euclid(2.0 * PI)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by the reference.
    #[test]
    fn sidereal_times_of_two_events() {
        for (gps, expected) in [
            (1_126_259_462.391, 2.4565323973278836),
            (1_187_008_882.42, 2.7289078975397274),
        ] {
            let angle = greenwich_mean_sidereal_time(gps);
            assert!((angle - expected).abs() < 1e-12, "{angle}");
        }
    }

    #[test]
    fn leap_seconds_begin_where_they_were_announced() {
        assert_eq!(leap_seconds(0.0), 0);
        assert_eq!(leap_seconds(1_126_259_462.391), 17);
        assert_eq!(leap_seconds(1_187_008_882.42), 18);
        // The last one, at the end of 2016: the inserted second itself still counts 17.
        assert_eq!(leap_seconds(1_167_264_016.9), 17);
        assert_eq!(leap_seconds(1_167_264_017.0), 18);
        // Midnight UTC after each insertion is a whole number of days after the GPS epoch.
        for (i, start) in LEAP_SECONDS.iter().enumerate() {
            assert_eq!((start - i as i64) % 86_400, 0);
        }
    }

    #[test]
    fn a_sidereal_day_is_a_turn() {
        let day = 86_164.090_5;
        let start = greenwich_mean_sidereal_time(1_200_000_000.0);
        let end = greenwich_mean_sidereal_time(1_200_000_000.0 + day);
        let difference = (end - start + PI).rem_euclid(2.0 * PI) - PI;
        assert!(difference.abs() < 2e-8, "{difference}");
    }
}
