//! A chart as a panel a series.

use crate::axis::Scale;
use crate::chart::Chart;
use crate::frame::{Frame, heading, heading_height, room_of};
use crate::series::Series;
use crate::svg::{Anchor, Num, Page, fitted};

const WIDTH: f64 = 210.0;
const HEIGHT: f64 = 110.0;
const GAP: (f64, f64) = (22.0, 30.0);

pub(crate) fn svg(chart: &Chart, x: Scale, y: Scale) -> String {
    let count = chart.series.len().max(1);
    let columns = match count {
        1..=4 => count.min(2),
        5..=9 => 3,
        _ => 4,
    };
    let rows = count.div_ceil(columns);
    // Small panels have room for few ticks.
    let x = if chart.is_log_x() {
        x
    } else {
        chart.x.fit(chart.series.iter().flat_map(Series::xs), 3)
    };
    let y_few = chart.y.fit(chart.series.iter().flat_map(Series::ys), 4);
    let left = 16.0 + room_of(&y);
    let width = left + columns as f64 * (WIDTH + GAP.0) + 12.0;
    let top = heading_height(&chart.subtitle, width) + 16.0;
    let height = top + rows as f64 * (HEIGHT + GAP.1) + 32.0;
    let mut page = Page::new(width, height, &chart.title);
    heading(&mut page, &chart.title, &chart.subtitle, width);
    // Several pictures may share a page, and so their names of elements.
    let letters = chart
        .title
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let id: String = "all-".chars().chain(letters).collect();
    let mut last = None;
    for (i, series) in chart.series.iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let frame = Frame {
            left: left + column as f64 * (WIDTH + GAP.0),
            top: top + row as f64 * (HEIGHT + GAP.1),
            width: WIDTH,
            height: HEIGHT,
            x: x.clone(),
            y: y_few.clone(),
        };
        // The lowest panel of its column names the ticks.
        let lowest = i + columns >= count;
        frame.draw(&mut page, 10.0, lowest, column == 0);
        if i == 0 {
            // All series in grey, drawn once; every other panel shows them again.
            page.put(format_args!("<g id=\"{id}\">\n"));
            for behind in &chart.series {
                behind.draw_behind(&mut page, &frame);
            }
            page.put(format_args!("</g>\n"));
        } else {
            let (x, y) = (Num(frame.left - left), Num(frame.top - top));
            page.put(format_args!("<use href=\"#{id}\" x=\"{x}\" y=\"{y}\"/>\n"));
        }
        series.draw_plain(&mut page, &frame, i);
        let name = fitted(&series.name, 11.0, WIDTH);
        page.text(
            frame.left + 2.0,
            frame.top - 5.0,
            Anchor::Start,
            11.0,
            &name,
        );
        last = Some(frame);
    }
    if let Some(frame) = last {
        let middle = left + (width - left) / 2.0;
        page.text(middle, height - 12.0, Anchor::Middle, 12.0, &frame.x.label);
        let y = top + rows as f64 * (HEIGHT + GAP.1) / 2.0;
        page.upward_text(left - room_of(&frame.y) + 4.0, y, &frame.y.label);
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use crate::{Axis, Chart, Series};

    #[test]
    fn every_series_has_its_panel() {
        let steps =
            |i: usize| Series::steps(format!("s{i}"), [(0.0, i as f64), (10.0, 3.0), (20.0, 0.0)]);
        let chart = Chart::new("Queue", Axis::seconds("time"), Axis::new("jobs").from(0.0))
            .with_all((0..10).map(steps))
            .in_panels(true);
        let svg = chart.svg();
        // Ten lines of their own; ten grey ones, shown behind each.
        assert_eq!(svg.matches("stroke-linejoin").count(), 10);
        assert_eq!(svg.matches("stroke-width=\"0.7\"/>").count(), 10);
        assert_eq!(svg.matches("<use href=\"#all-Queue\"").count(), 9);
        assert!(svg.contains(">s9</text>"));
    }
}
