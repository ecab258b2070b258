//! Pages as parsed HTML.

use std::collections::HashSet;

use html5ever::tendril::TendrilSink as _;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// An answer and, if it is HTML, its elements.
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    dom: RcDom,
}

/// An element.
#[derive(Clone)]
pub(crate) struct Element(Handle);

impl Page {
    pub(crate) fn new(status: u16, headers: Vec<(String, String)>, body: String) -> Self {
        let tree_builder = TreeBuilderOpts { exact_errors: true, ..TreeBuilderOpts::default() };
        let options = ParseOpts { tree_builder, ..ParseOpts::default() };
        let dom = parse_document(RcDom::default(), options).one(body.clone());
        Self { status, headers, body, dom }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    fn root(&self) -> Element {
        Element(self.dom.document.clone())
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = Element> + use<> {
        self.root().descendants(name)
    }

    pub(crate) fn one(&self, name: &str) -> Element {
        let mut all = self.all(name);
        let one = all.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(all.next().is_none(), "more than one {name}");
        one
    }

    /// The visible text.
    pub(crate) fn text(&self) -> String {
        self.one("body").text()
    }

    /// Checks for every page.
    pub(crate) fn check(&self) {
        let errors = self.dom.errors.borrow();
        assert!(errors.is_empty(), "{errors:?} in {}", self.body);
        assert!(self.header("content-type").starts_with("text/html"));
        let policy = self.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let (mut ids, mut labelled) = (HashSet::new(), HashSet::new());
        let mut elements = Vec::new();
        self.root().collect(&mut elements);
        for element in &elements {
            let name = element.name();
            for (attribute, value) in element.attributes() {
                assert!(
                    attribute != "style" && !attribute.starts_with("on"),
                    "{attribute}={value}"
                );
                match attribute.as_str() {
                    "id" => assert!(ids.insert(value.clone()), "two of {value}"),
                    "for" => drop(labelled.insert(value.clone())),
                    "src" => assert!(value.starts_with("/static/"), "{value}"),
                    "action" => assert!(value.starts_with('/'), "{value}"),
                    "href" => assert!(
                        ["/", "#", "mailto:", "https://"]
                            .iter()
                            .any(|start| value.starts_with(start)),
                        "{value}"
                    ),
                    _ => {}
                }
            }
            assert_ne!(name, "style");
            if name == "script" {
                assert!(element.attribute("src").is_some() && element.text().is_empty());
            }
        }
        for element in &elements {
            for reference in ["aria-labelledby", "aria-describedby", "aria-controls"] {
                if let Some(id) = element.attribute(reference) {
                    assert!(ids.contains(id), "{reference}={id}");
                }
            }
            let is_field = matches!(element.name().as_str(), "input" | "textarea" | "select")
                && element.attribute("type") != Some("hidden");
            if is_field {
                assert!(labelled.contains(element.attribute("id").unwrap()));
            }
            let is_picture =
                element.name() == "svg" && element.attribute("aria-hidden") != Some("true");
            if is_picture {
                assert!(element.attribute("aria-label").is_some_and(|label| !label.is_empty()));
            }
        }
        for landmark in ["main", "h1", "footer"] {
            self.one(landmark);
        }
        let title = self.one("head").descendants("title").next().map(|title| title.text());
        assert!(title.is_some_and(|title| !title.is_empty()));
    }
}

impl Element {
    pub(crate) fn name(&self) -> String {
        match &self.0.data {
            NodeData::Element { name, .. } => name.local.to_string(),
            _ => String::new(),
        }
    }

    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        match &self.0.data {
            NodeData::Element { attrs, .. } => attrs
                .borrow()
                .iter()
                .map(|a| (a.name.local.to_string(), a.value.to_string()))
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'static str> {
        let all = self.attributes();
        let value = all.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)?;
        // A few texts of a test.
        Some(value.leak())
    }

    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    }

    pub(crate) fn descendants(&self, name: &str) -> impl Iterator<Item = Element> + use<> {
        let mut all = Vec::new();
        self.collect(&mut all);
        let name = name.to_owned();
        all.into_iter().skip(1).filter(move |element| element.name() == name)
    }

    /// This element and all elements in it.
    fn collect(&self, out: &mut Vec<Element>) {
        out.push(self.clone());
        for child in self.0.children.borrow().iter() {
            if matches!(child.data, NodeData::Element { .. }) {
                Element(child.clone()).collect(out);
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for child in self.0.children.borrow().iter() {
            match &child.data {
                NodeData::Text { contents } => out.push_str(&contents.borrow()),
                NodeData::Element { .. } => out.push_str(&Element(child.clone()).text()),
                _ => {}
            }
        }
        out
    }
}
