package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"time"
)

// point is one line of a file of points. Integers are text there, as JavaScript's numbers don't hold all of them.
type point struct {
	Measurement string             `json:"measurement"`
	Tags        map[string]string  `json:"tags"`
	Floats      map[string]float64 `json:"floats"`
	Ints        map[string]string  `json:"ints"`
	Uints       map[string]string  `json:"uints"`
	Bools       map[string]bool    `json:"bools"`
	Strings     map[string]string  `json:"strings"`
	Time        int64              `json:"time,string"` // nanoseconds

	fields map[string]any // all of the above
}

func readPoints(path string) ([]point, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var points []point
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p point
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, err
		}
		if p.fields, err = p.parsed(); err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, lines.Err()
}

func (p point) at() time.Time { return time.Unix(0, p.Time) }

// parsed returns the fields in the types that the libraries take.
func (p *point) parsed() (map[string]any, error) {
	fields := make(map[string]any)
	for name, value := range p.Floats {
		fields[name] = value
	}
	for name, value := range p.Bools {
		fields[name] = value
	}
	for name, value := range p.Strings {
		fields[name] = value
	}
	var err error
	for name, value := range p.Ints {
		if fields[name], err = strconv.ParseInt(value, 10, 64); err != nil {
			return nil, err
		}
	}
	for name, value := range p.Uints {
		if fields[name], err = strconv.ParseUint(value, 10, 64); err != nil {
			return nil, err
		}
	}
	return fields, nil
}
