package segment

import "io"

// begin starts a file: addBlock follows for its rows, in order, and then finish.
func (w *fileWriter) begin(out io.Writer, info FileInfo) error {
	if err := w.reset(out, info); err != nil {
		return err
	}
	return w.out.write([]byte(parquetMagic))
}

// finish completes the file.
func (w *fileWriter) finish() (Written, error) {
	if err := w.endGroup(); err != nil {
		return Written{}, err
	}
	return w.footer.finish(&w.out, &w.info)
}
