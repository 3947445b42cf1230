"""Every query. Functions take an open session and speak in table rows or small frozen rows; none of them commits."""
