#include "experiments/report/document.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "envs/recorded/base64.h"

namespace engram {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

std::string escaped(const std::string& text, const char* special, std::string (*replacement)(char)) {
  std::string result;
  const std::string all = special;
  for (const char c : text) {
    if (all.find(c) != std::string::npos)
      result += replacement(c);
    else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
      result += ' ';
    else
      result += c;
  }
  return result;
}

std::string html_entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    default:
      return "&#39;";
  }
}

std::string data_uri(const char* type, const std::string& bytes) {
  return std::string("data:") + type + ";base64," +
         encode_base64({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::string html_lines(const std::string& text) {
  std::string lines;
  for (const char c : html_escaped(text)) lines += c == '\n' ? std::string("<br>") : std::string(1, c);
  return lines;
}

std::string html_row(const std::vector<std::string>& cells, const char* tag, int text_columns) {
  std::string text = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string name = tag;
    const bool left = i < static_cast<std::size_t>(text_columns);
    text += "<" + name + (left ? " class=\"text\">" : ">") + html_lines(cells[i]) + "</" + name + ">";
  }
  return text + "</tr>\n";
}

std::string html(const Heading& heading) {
  const std::string tag = std::string("h").append(std::to_string(heading.level));
  return "<" + tag + ">" + html_escaped(heading.text) + "</" + tag + ">\n";
}

std::string html(const Paragraph& paragraph) {
  return (paragraph.answer ? "<p class=\"answer\">" : "<p>") + html_escaped(paragraph.text) + "</p>\n";
}

std::string html(const Charts&) {
  return "</div>\n<div id=\"charts\"><noscript><p>The charts need JavaScript; the tables below have their "
         "figures.</p></noscript></div>\n<div id=\"rest\">\n";
}

std::string html(const FoldBegin& fold) { return "<details><summary>" + html_escaped(fold.summary) + "</summary>\n"; }

std::string html(const FoldEnd&) { return "</details>\n"; }

std::string html(const BulletList& list) {
  std::string text = "<ul>\n";
  for (const std::string& item : list.items) text += "<li>" + html_escaped(item) + "</li>\n";
  return text + "</ul>\n";
}

std::string html(const TextTable& table) {
  std::string text;
  if (!table.caption.empty()) text += "<p class=\"caption\">" + html_escaped(table.caption) + "</p>\n";
  text += "<div class=\"scroll\"><table>\n<thead>" + html_row(table.header, "th", table.text_columns) +
          "</thead>\n<tbody>\n";
  for (const auto& row : table.rows) text += html_row(row, "td", table.text_columns);
  return text + "</tbody></table></div>\n";
}

std::string note_on_missing(const Figure& figure) { return "This figure is left out: " + figure.missing; }

std::string html(const Figure& figure) {
  if (figure.paper) return "";
  if (!figure.missing.empty())
    return "<figure><p>" + html_escaped(note_on_missing(figure)) + "</p>\n<figcaption>" + html_escaped(figure.caption) +
           "</figcaption></figure>\n";
  const std::string source =
      figure.svg.empty() ? data_uri("image/png", figure.png) : data_uri("image/svg+xml", figure.svg);
  return "<figure><img src=\"" + source + "\" alt=\"" + html_escaped(figure.caption) + "\">\n<figcaption>" +
         html_escaped(figure.caption) + "</figcaption></figure>\n";
}

std::string html(const CodeBlock& code) {
  const std::string block = "<pre>" + html_escaped(code.text) + "</pre>\n";
  if (code.summary.empty()) return block;
  return "<details><summary>" + html_escaped(code.summary) + "</summary>\n" + block + "</details>\n";
}

// One line, and nothing in it that Markdown would take for more than text.
std::string markdown_escaped(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return escaped(text, "\\`*_[]<>|#&~$", [](char c) {
    return c == '&' || c == '<' || c == '>' ? html_entity(c) : std::string{'\\', c};
  });
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text.append(" ").append(markdown_escaped(cell)).append(" |");
  return text + "\n";
}

std::string markdown(const TextTable& table) {
  std::string text = table.caption.empty() ? "" : markdown_escaped(table.caption) + "\n\n";
  text += markdown_row(table.header) + "|";
  for (std::size_t i = 0; i < table.header.size(); ++i)
    text += i < static_cast<std::size_t>(table.text_columns) ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : table.rows) text += markdown_row(row);
  return text;
}

// The fence is longer than any in the text.
std::string markdown(const CodeBlock& code) {
  std::size_t longest = 2, run = 0;
  for (const char c : code.text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const std::string title = code.summary.empty() ? "" : markdown_escaped(code.summary) + "\n\n";
  return title + fence + "\n" + code.text + (code.text.ends_with('\n') ? "" : "\n") + fence + "\n";
}

}  // namespace

std::string html_escaped(const std::string& text) { return escaped(text, "&<>\"'", html_entity); }

std::string Document::why_figures_are_missing() const {
  for (const Block& block : blocks_)
    if (const auto* const figure = std::get_if<Figure>(&block); figure != nullptr && !figure->missing.empty())
      return figure->missing;
  return "";
}

std::string Document::to_html() const {
  std::string text = "<div id=\"top\">\n<h1>" + html_escaped(title_) + "</h1>\n";
  for (const Block& block : blocks_) text += std::visit([](const auto& part) { return html(part); }, block);
  return text + "</div>\n";
}

std::string Document::to_markdown(const std::string& figures) const {
  std::string text = std::string("# ").append(markdown_escaped(title_)).append("\n");
  for (const Block& block : blocks_) {
    text += "\n";
    text += std::visit(
        Overloaded{
            [](const Heading& heading) {
              return std::string(static_cast<std::size_t>(heading.level), '#') + " " + markdown_escaped(heading.text) +
                     "\n";
            },
            [](const Paragraph& paragraph) { return markdown_escaped(paragraph.text) + "\n"; },
            [](const Charts&) { return std::string(); },
            [](const FoldBegin& fold) { return "<details><summary>" + html_escaped(fold.summary) + "</summary>\n"; },
            [](const FoldEnd&) { return std::string("</details>\n"); },
            [](const BulletList& list) {
              std::string items;
              for (const std::string& item : list.items) items += "- " + markdown_escaped(item) + "\n";
              return items;
            },
            [&](const Figure& figure) {
              if (!figure.missing.empty())
                return markdown_escaped(note_on_missing(figure)) + "\n\n*" + markdown_escaped(figure.caption) + "*\n";
              return "![" + markdown_escaped(figure.caption) + "](<" + figures + "/" + figure.name +
                     (figure.svg.empty() ? ".png" : ".svg") + ">)\n\n*" + markdown_escaped(figure.caption) + "*\n";
            },
            [](const auto& part) { return markdown(part); }},
        block);
  }
  return text;
}

}  // namespace engram
