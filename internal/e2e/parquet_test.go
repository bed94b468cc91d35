package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// physicalRows reads every row of every segment of a stopped server, below any merge and without lineweir's own code.
// Each is the text of its columns.
func physicalRows(t *testing.T, s *server) []string {
	t.Helper()
	var rows []string
	for _, path := range s.files(t, "l0", "l1") {
		got, err := fileRows(path)
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		rows = append(rows, got...)
	}
	return rows
}

func fileRows(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	opened, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, group := range opened.RowGroups() {
		got, err := groupRows(group)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	if int64(len(rows)) != opened.NumRows() {
		return nil, fmt.Errorf("it has %d rows and says %d", len(rows), opened.NumRows())
	}
	return rows, nil
}

func groupRows(group parquet.RowGroup) ([]string, error) {
	reader := group.Rows()
	defer reader.Close()
	columns := group.Schema().Columns()
	buffer := make([]parquet.Row, 512)
	var rows []string
	for {
		n, err := reader.ReadRows(buffer)
		for _, row := range buffer[:n] {
			rows = append(rows, rowText(columns, row))
		}
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func rowText(columns [][]string, row parquet.Row) string {
	var text strings.Builder
	for _, value := range row {
		if !value.IsNull() {
			fmt.Fprintf(&text, "%s=%v,", columns[value.Column()][0], value)
		}
	}
	return text.String()
}
