//! The figures of the programs, and the table of their medians.

use super::users::UserStats;
use comfy_table::Table;
use std::collections::BTreeMap;

/// The figures of one program, with one value per round.
#[derive(Default)]
pub(crate) struct Figures {
    /// Seconds from its start until it accepts connections.
    pub(crate) load_s: Vec<f64>,
    /// CPU time of all its threads until then.
    pub(crate) load_cpu_s: Vec<f64>,
    pub(crate) loaded_mb: Vec<f64>,
    /// By connections.
    pub(crate) under_load: BTreeMap<u32, Vec<Loaded>>,
    /// Resident memory ten seconds after the load.
    pub(crate) rested_mb: Vec<f64>,
    /// The virtual users' requests, and the peak memory until then.
    pub(crate) users: UserStats,
    pub(crate) most_with_users_mb: f64,
}

/// One run under load.
pub(crate) struct Loaded {
    pub(crate) requests_per_s: f64,
    /// The server's CPU time per request.
    pub(crate) cpu_us: f64,
    /// Peak resident memory.
    pub(crate) most_mb: f64,
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the table of all programs, with the ratios of the first one, Marmota, to each other; above
/// 1 is better. The targets are those compared with the plain program.
pub(crate) fn table(programs: &[(&str, &Figures)], connections: &[u32], users: u32) -> String {
    let Some(((ours_name, ours), others)) = programs.split_first() else { return String::new() };
    let has_targets = others.len() == 1;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    let mut header = vec!["", ours_name];
    header.extend(others.iter().flat_map(|(name, _)| [*name, "ratio"]));
    header.extend(has_targets.then_some("target"));
    table.set_header(header);
    let mut row = |name: String, of: &dyn Fn(&Figures) -> f64, digits: usize, target: &str| {
        let number = |value: f64| format!("{value:.digits$}");
        let is_rate = name.starts_with("requests");
        let own = of(ours);
        let mut cells = vec![name, number(own)];
        for (_, other) in others {
            let other = of(other);
            let ratio = if is_rate { own / other } else { other / own };
            // No ratio if both values are 0.
            let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { String::new() };
            cells.extend([number(other), ratio]);
        }
        cells.extend(has_targets.then(|| target.to_owned()));
        table.add_row(cells);
    };
    row("start to listening, s".into(), &|f| median(f.load_s.clone()), 3, "≥ 4");
    row("CPU until then, s".into(), &|f| median(f.load_cpu_s.clone()), 2, "");
    row("memory loaded, MB".into(), &|f| median(f.loaded_mb.clone()), 1, "≤ 40");
    for &connections in connections {
        let name = |what: &str| format!("{what}, {connections} connections");
        let of = |get: fn(&Loaded) -> f64| {
            move |f: &Figures| median(f.under_load.get(&connections).into_iter().flatten().map(get))
        };
        row(name("requests per second"), &of(|l| l.requests_per_s), 0, "≥ 2.5");
        row(name("CPU per request, us"), &of(|l| l.cpu_us), 0, "≥ 8");
        row(name("peak memory, MB"), &of(|l| l.most_mb), 1, "≤ 60");
    }
    row("memory 10 s after, MB".into(), &|f| median(f.rested_mb.clone()), 1, "≤ 1.2 × loaded");
    if ours.users.requests > 0 {
        let name = |what: &str| format!("{what}, {users} users");
        row(name("requests"), &|f| f.users.requests as f64, 0, "> 1");
        row(name("failed"), &|f| f.users.failures.len() as f64, 0, "0");
        row(name("95th percentile, ms"), &|f| f.users.wait_ms(95), 0, "");
        row(name("longest, ms"), &|f| f.users.wait_ms(100), 0, "");
        row(name("peak memory, MB"), &|f| f.most_with_users_mb, 1, "≤ 60");
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_above_one_are_better() {
        let figures = |load, rate| Figures {
            load_s: vec![9.0, load, 0.0],
            under_load: [(16, vec![Loaded { requests_per_s: rate, cpu_us: 5.0, most_mb: 1.0 }])]
                .into(),
            ..Figures::default()
        };
        let (ours, plain, other) = (figures(0.5, 300.0), figures(2.0, 100.0), figures(1.0, 600.0));
        let table = table(&[("marmota", &ours), ("plain", &plain), ("other", &other)], &[16], 50);
        let cells = |name: &str| -> Vec<String> {
            let row = table.lines().find(|line| line.contains(name)).unwrap();
            row.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(cells("listening")[2..7], ["0.500", "2.000", "4.00", "1.000", "2.00"]);
        assert_eq!(cells("requests per second")[2..7], ["300", "100", "3.00", "600", "0.50"]);
    }
}
