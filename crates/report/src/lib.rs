//! Tables, plots and the HTML page
