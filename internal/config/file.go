package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileReader walks a parsed file. It works on nodes rather than on decoded values, because only they know lines, and
// because the table and not YAML decides what a value is.
type fileReader struct {
	name   string
	values layer
	found  *problems
}

// readFile takes the settings out of the text of a file. An empty file, or one of comments alone, sets nothing.
func readFile(name string, text []byte, found *problems) layer {
	r := fileReader{name: name, values: make(layer), found: found}
	root, err := parseDocument(text)
	switch {
	case err != nil:
		found.unreadable = true
		found.add("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	case root == nil:
	case root.Kind != yaml.MappingNode:
		found.unreadable = true
		found.add("%s: want settings written as \"key: value\"", r.at(root))
	default:
		r.section("", root)
	}
	return r.values
}

// parseDocument returns the root of the only document, or nil if there is none.
func parseDocument(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one document, found a second")
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

// section reads the entries of a mapping whose keys stand below prefix.
func (r *fileReader) section(prefix string, node *yaml.Node) {
	seen := make(map[string]bool)
	for i := 0; i < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		path := prefix + name.Value
		if seen[path] {
			r.found.refuse(path, "%s: %s is set twice", r.at(name), path)
			continue
		}
		seen[path] = true
		r.entry(path, name, value)
	}
}

// entry reads one key or section.
func (r *fileReader) entry(path string, name, value *yaml.Node) {
	k := findKey(path)
	section, last, dotted := strings.Cut(name.Value, delimiter)
	switch {
	case k != nil && dotted:
		r.found.refuse(path, "%s: write %s as the key %s in the section %s", r.at(name), path, last, section)
	case k != nil:
		r.value(k, value)
	case !isSection(path):
		r.found.add("%s: %v %s", r.at(name), errUnknownKey, path)
	case isEmpty(value):
		r.found.add("%s: the section %s is empty", r.at(name), path)
	case value.Kind != yaml.MappingNode:
		r.found.add("%s: %s is a section: its keys stand below it, indented", r.at(name), path)
	default:
		r.section(path+delimiter, value)
	}
}

func (r *fileReader) value(k *key, value *yaml.Node) {
	switch {
	case isEmpty(value):
		r.found.refuse(k.path, "%s: %s: %v", r.at(value), k.path, errEmptyValue)
	case value.Kind != yaml.ScalarNode:
		r.found.refuse(k.path, "%s: %s takes a single value", r.at(value), k.path)
	default:
		r.values.set(k, value.Value, r.at(value), r.found)
	}
}

// isEmpty tells whether nothing was written: no value, the word null, or a mapping or list without entries.
func isEmpty(value *yaml.Node) bool {
	return value.Kind == yaml.ScalarNode && value.Tag == "!!null" ||
		value.Kind != yaml.ScalarNode && value.Kind != yaml.AliasNode && len(value.Content) == 0
}

func (r *fileReader) at(node *yaml.Node) string {
	return fmt.Sprintf("%s:%d", r.name, node.Line)
}
