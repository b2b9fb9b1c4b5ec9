// SPDX-License-Identifier: GPL-2.0-or-later
//! The frame of all pages: head, navigation, and the data and scripts at the end, all in the one file.

use super::charts::Chart;
use super::markup::{escape, script_json};
use crate::svg;

const STYLE: &str = include_str!("../../assets/report.css");
const CHARTS: &str = include_str!("../../assets/report.js");
const MAPS: &str = include_str!("../../assets/maps.js");
const TIMELINE: &str = include_str!("../../assets/timeline.js");
const SAVE: &str = include_str!("../../assets/save.js");
const FILTER: &str = include_str!("../../assets/filter.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const UPLOT_LICENSE: &str = include_str!("../../assets/uPlot.LICENSE");
/// Of pages that have curves.
const CREDIT: &str = " uPlot draws the curves; its licence is in this file.";

/// A page before it is put together. Texts ending in `_html` are markup.
pub struct Page<'a> {
    pub title: &'a str,
    pub heading_html: String,
    pub about: &'a [&'a str],
    pub command: &'a str,
    /// Ids of sections with their names in the navigation; those that the body has are linked.
    pub parts: &'a [(&'a str, &'a str)],
    pub body_html: String,
    pub charts: &'a [Chart],
    /// Data of the places for maps, in the order of the body.
    pub maps: &'a [serde_json::Value],
    /// Data of the places for timelines, in the order of the body.
    pub timelines: &'a [serde_json::Value],
    /// Whether statements can be filtered.
    pub filter: bool,
}

impl Page<'_> {
    pub fn render(&self) -> String {
        let about: String = self
            .about
            .iter()
            .map(|text| format!("<p>{}</p>\n", escape(text)))
            .collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"Tiltyard {version}\">\n\
             <title>{title}</title>\n<style>{uplot_style}{STYLE}</style></head>\n<body><main>\n\
             <header><h1>{heading}</h1>\n{about}<pre>{command}</pre>{nav}</header>\n{body}\
             <footer>Made by Tiltyard {version}.{credit}</footer>\n\
             </main>\n{scripts}</body></html>\n",
            version = env!("CARGO_PKG_VERSION"),
            uplot_style = if self.charts.is_empty() {
                ""
            } else {
                UPLOT_STYLE
            },
            credit = if self.charts.is_empty() { "" } else { CREDIT },
            title = escape(self.title),
            heading = self.heading_html,
            command = escape(self.command),
            nav = self.nav(),
            body = self.body_html,
            scripts = self.scripts(),
        )
    }

    /// Links to the sections that the page has.
    fn nav(&self) -> String {
        let there = |id: &str| self.body_html.contains(&format!("<section id=\"{id}\""));
        let parts = self.parts.iter().filter(|(id, _)| there(id));
        let link = |(id, name): &(&str, &str)| format!("<a href=\"#{id}\">{}</a>", escape(name));
        format!("<nav>{}</nav>", parts.map(link).collect::<String>())
    }

    fn scripts(&self) -> String {
        let mut scripts = format!(
            "<script type=\"application/json\" id=\"data\">{}</script>\n",
            script_json(&self.charts)
        );
        if !self.charts.is_empty() {
            scripts += &format!("<script>/*\n{UPLOT_LICENSE}\n*/\n{UPLOT_SCRIPT}</script>\n");
        }
        scripts += &format!("<script>{CHARTS}</script>\n");
        // What can be saved of each diagram: the same as the files of --figures.
        for chart in self.charts {
            scripts += &format!(
                "<template data-figure=\"{}\">{}</template>\n",
                escape(&chart.id),
                svg::chart(chart)
            );
        }
        if !self.maps.is_empty() {
            let data = script_json(&self.maps);
            scripts += &format!(
                "<script type=\"application/json\" id=\"map-data\">{data}</script>\n<script>{MAPS}</script>\n"
            );
        }
        if !self.timelines.is_empty() {
            let data = script_json(&self.timelines);
            scripts += &format!(
                "<script type=\"application/json\" id=\"timeline-data\">{data}</script>\n<script>{TIMELINE}</script>\n"
            );
        }
        scripts += &format!("<script>{SAVE}</script>\n");
        if self.filter {
            scripts += &format!("<script>{FILTER}</script>\n");
        }
        scripts
    }
}
