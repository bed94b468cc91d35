package config

import (
	"fmt"
	"strings"

	"github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/v2"
)

const delimiter = "."

// layer is what one source sets: checked values by the path of their key. It is a koanf.Provider.
type layer map[string]any

// set checks text and takes it as the value of k. A refused value is a problem and leaves the layer as it was.
func (l layer) set(k *key, text, where string, found *problems) {
	value, err := k.parse(text)
	if err != nil {
		found.refuse(k.path, "%s: %s: %v", where, k.path, err)
		return
	}
	l[k.path] = value
}

// Read returns the layer as koanf wants it, nested.
func (l layer) Read() (map[string]any, error) {
	return maps.Unflatten(l, delimiter), nil
}

// ReadBytes is the half of koanf.Provider for sources that need a parser; a layer needs none.
func (l layer) ReadBytes() ([]byte, error) {
	return nil, fmt.Errorf("a layer of settings is not text")
}

// defaultLayer holds the default of every key.
func defaultLayer() layer {
	var found problems
	values := make(layer, len(keys))
	for i := range keys {
		values.set(&keys[i], keys[i].standard, "built-in default", &found)
	}
	if err := found.err(); err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	return values
}

// readFlags takes settings as --set gives them, key=value; of two for one key the later wins.
func readFlags(settings []string, found *problems) layer {
	values := make(layer)
	for _, setting := range settings {
		path, text, assigned := strings.Cut(setting, "=")
		k := findKey(path)
		switch {
		case !assigned:
			found.add("--set %s: write it as key=value", setting)
		case k == nil:
			found.add("--set %s: %v %s", setting, errUnknownKey, path)
		default:
			values.set(k, text, "command line", found)
		}
	}
	return values
}

// merge puts layers over one another, later ones winning. The values were checked when the layers were read, so what
// goes wrong here is a table that disagrees with Config.
func merge(layers ...layer) Config {
	all := koanf.New(delimiter)
	for _, values := range layers {
		if err := all.Load(values, nil); err != nil {
			panic(fmt.Sprintf("BUG: load a layer of settings: %v", err))
		}
	}
	var merged Config
	if err := all.Unmarshal("", &merged); err != nil {
		panic(fmt.Sprintf("BUG: fill Config: %v", err))
	}
	return merged
}
